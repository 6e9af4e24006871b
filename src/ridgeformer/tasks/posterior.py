"""Gaussian conditioning and averages by evidence, which the best predictors share."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def conditioned(
    between: Float[Tensor, "batch k k"],
    across: Float[Tensor, "batch q k"],
    y: Float[Tensor, "batch k r"],
    noise: float | Float[Tensor, ""] | Float[Tensor, "batch k"],
) -> tuple[Float[Tensor, "batch q r"], Float[Tensor, " batch"]]:
    """The posterior mean across·(K + N)⁻¹y, and the log evidence of y without −½ k r log 2π.

    The outputs are independent with distribution N(0, K + N), where N = diag(noise) holds noise variances.
    """
    system = between.clone()
    diagonal = system.diagonal(dim1=-2, dim2=-1)
    diagonal += noise
    factor = torch.linalg.cholesky(system)
    alpha = torch.cholesky_solve(y, factor)
    half_log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return across @ alpha, -0.5 * (y * alpha).sum((1, 2)) - y.shape[2] * half_log_det


def averaged(
    values: Float[Tensor, "batch hypotheses ..."], evidence: Float[Tensor, "batch hypotheses"]
) -> Float[Tensor, "batch ..."]:
    """Σ_h π_h values_h, where π ∝ exp(log evidence) is the posterior of equally likely hypotheses."""
    return torch.einsum("bh,bh...->b...", evidence.softmax(1), values)
