"""Co-training: kernel ridge regression on a model's own states, whose error is added to the model's.

    loss = mean (f − y)² + weight · mean over layers of mean (f_ℓ − y)²,
    f_ℓ(q) = k(q, X) (K + λI)⁻¹ y,   k(a, b) = ⟨φ_ℓ(a), φ_ℓ(b)⟩,

where φ_ℓ is the residual stream after layer ℓ at the token of a support or a query, with mean 0 and length 1.
The error at the queries thus teaches the layers up to ℓ features in which ridge regression predicts well.
Targets of queries enter the error alone: neither the tokens nor the regression contain them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import Prompt, Sample
from ridgeformer.transformer import Record, Transformer


def ridge_predictions(
    features: Float[Tensor, "batch k d"],
    y: Float[Tensor, "batch k r"],
    queries: Float[Tensor, "batch q d"],
    ridge: float,
) -> Float[Tensor, "batch q r"]:
    """Kernel ridge regression with the linear kernel, by a Cholesky factor of the smaller of ΦΦᵀ + λI and ΦᵀΦ + λI.

    The solve is in float64, so that gradients of float32 features are not lost to round-off where λ is small. Features
    that are not finite give predictions that are not finite, so that the run can say at which step.
    """
    phi, asked, targets = features.double(), queries.double(), y.double()
    k, d = phi.shape[1:]
    gram = phi @ phi.mT if k <= d else phi.mT @ phi
    identity = torch.eye(min(k, d), dtype=phi.dtype, device=phi.device)
    factor, failed = torch.linalg.cholesky_ex(gram + ridge * identity)
    factor = factor.masked_fill((failed > 0)[:, None, None], torch.nan)
    if k <= d:
        weights = phi.mT @ torch.cholesky_solve(targets, factor)
    else:
        weights = torch.cholesky_solve(phi.mT @ targets, factor)
    return (asked @ weights).to(features.dtype)


def normalised(states: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
    """The states with mean 0 and length 1, so that k(x, x) = 1 and λ means the same at every layer and width."""
    width = states.shape[-1]
    scaled: Tensor = F.layer_norm(states, (width,)) / width**0.5
    return scaled


def site_after(layer: int) -> str:
    return f"blocks.{layer - 1}.resid_post"


def predict_with_ridge(
    model: Transformer, prompt: Prompt, layers: Sequence[int], ridge: float
) -> tuple[Float[Tensor, "batch q r"], list[Float[Tensor, "batch q r"]]]:
    """The model's predictions in the layout pairs, and those of ridge regression on its states after each layer.

    The first layer is 1. All predictions are of one forward pass, and gradients flow through them.
    """
    record = Record.of(map(site_after, layers))
    own: Tensor = model(prompt.tokens(), prompt.supports + 1, [record])
    predicted = []
    for layer in layers:
        features = normalised(record.values[site_after(layer)])
        # The aggregator stands between the supports and the queries.
        supports, queries = features[:, : prompt.supports], features[:, prompt.supports + 1 :]
        predicted.append(ridge_predictions(supports, prompt.y, queries, ridge))
    return own, predicted


def cotraining_loss(
    model: Transformer, sample: Sample, weight: float, layers: Sequence[int], ridge: float
) -> Tensor:
    """The model's mean squared error in the layout pairs, and `weight` times that of ridge regression on its states."""
    own, predicted = predict_with_ridge(model, sample.prompt, layers, ridge)
    errors = (torch.stack(predicted) - sample.targets).square().mean()
    return (own - sample.targets).square().mean() + weight * errors
