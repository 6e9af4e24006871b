"""Temperature: hot and cold limits of a softmax head and of exponential-kernel ridge regression."""

from __future__ import annotations

from math import inf, log, log1p, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Exponential
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import cross, gram, lengths
from ridgeformer.types import Refusal


def smoother_hot_bound(
    prompt: Prompt, *, temperature: float, max_norm: float
) -> Float[Tensor, "batch 1 r"]:
    """|f(x) − ȳ| ≤ tanh(R²/2τ)·(max y − min y) for the smoother Σ k_j y_j/Σ k_j with |φ| ≤ R."""
    spread = prompt.y.amax(1, keepdim=True) - prompt.y.amin(1, keepdim=True)
    share: Tensor = torch.tanh(torch.tensor(max_norm**2 / temperature / 2, dtype=torch.float64))
    return share * spread


def smoother_cold_bound(prompt: Prompt, *, temperature: float) -> Float[Tensor, "batch q r"]:
    """|f(x) − y_j| ≤ (k − 1)e^{−g/τ}·max_i|y_i − y_j| for the smoother.

    j is the support with the largest score ⟨φ_j, φ(x)⟩, and g is its lead over the next. The bound
    is vacuous where g < τ·log(k − 1).
    """
    scores, nearest = nearest_targets(prompt)
    if prompt.supports == 1:
        return torch.zeros_like(nearest)
    lead = scores[..., :1] - scores[..., 1:2]
    spread = (prompt.y[:, None] - nearest[:, :, None]).abs().amax(2)
    return (prompt.supports - 1) * (-lead / temperature).exp() * spread


def nearest_targets(
    prompt: Prompt,
) -> tuple[Float[Tensor, "batch q k"], Float[Tensor, "batch q r"]]:
    """The scores ⟨φ_i, φ(x)⟩ in descending order, and the targets of the nearest support."""
    scores, order = (prompt.phi_query @ prompt.phi.mT).sort(-1, descending=True)
    return scores, torch.take_along_dim(prompt.y, order[..., :1], dim=1)


def hot_limit(prompt: Prompt, *, ridge: float) -> Float[Tensor, "batch 1 r"]:
    """kȳ/(k + λ), the prediction of ridge regression at any query if all kernel values are 1."""
    return prompt.y.double().sum(1, keepdim=True) / (prompt.supports + ridge)


def hot_bound(prompt: Prompt, *, ridge: float, kernel: Exponential) -> Float[Tensor, "batch 1 r"]:
    """|f*(x) − kȳ/(k + λ)| ≤ (√k‖y‖/λ)(1 + k/(k + λ))·η, η = e^{R²/τ} − 1.

    R² bounds |⟨Ua, Ub⟩| over the features of supports and queries.
    """
    k = prompt.supports
    size = sqrt(k) / ridge * (1 + k / (k + ridge)) * lengths(prompt.y.double(), 1)[:, None, :]
    return size * warmth(prompt, kernel)[:, None, None]


def hot_misfit_bound(
    prompt: Prompt, *, ridge: float, kernel: Exponential
) -> Float[Tensor, "batch r"]:
    """‖y − f*(X)‖ ≥ λ‖y − ȳ‖²/((λ + kη)‖y‖) at the supports X: when hot, only the mean fits."""
    y = prompt.y.double()
    centred = lengths(y - y.mean(1, keepdim=True), 1).square() / lengths(y, 1)
    return ridge * centred / (ridge + prompt.supports * warmth(prompt, kernel)[:, None])


def cold_limit(prompt: Prompt, *, ridge: float, kernel: Exponential) -> Float[Tensor, "batch q r"]:
    """k(x)ᵀy/(g + λ), g = e^{N²/τ}: the prediction when K_ij = 0 for i ≠ j."""
    height, _ = coldness(prompt, kernel)
    return cross(prompt, kernel) @ prompt.y.double() / (height + ridge)[:, None, None]


def cold_bound(prompt: Prompt, *, ridge: float, kernel: Exponential) -> Float[Tensor, "batch q r"]:
    """|f*(x) − k(x)ᵀy/(g + λ)| ≤ ‖k(x)‖‖y‖·gδ/((g + λ)(g + λ − gδ)), δ = (k − 1)e^{−(N² − c)/τ}.

    All supports have |Uφ_i| = N and ⟨Uφ_i, Uφ_j⟩ ≤ c for i ≠ j. The bound is infinite unless
    gδ < g + λ.
    """
    height, overlap = (v[:, None, None] for v in coldness(prompt, kernel))
    left = height + ridge - height * overlap
    size = lengths(cross(prompt, kernel), 2)[:, :, None] * lengths(prompt.y.double(), 1)[:, None, :]
    bound = size * height * overlap / ((height + ridge) * left.clamp(min=1e-300))
    return torch.where(left > 0, bound, inf)


def cold_size_bound(
    prompt: Prompt, *, ridge: float, kernel: Exponential
) -> Float[Tensor, "batch q r"]:
    """|f*(x)| ≤ √k·e^{−(N² − c_x)/τ}‖y‖/(1 + λ/g − δ): when cold, f* is near 0 at new queries.

    c_x is the largest ⟨Uφ_i, Uφ(x)⟩. The bound is infinite unless δ < 1 + λ/g.
    """
    height, overlap = (v[:, None, None] for v in coldness(prompt, kernel))
    nearest = cross(prompt, kernel).amax(2, keepdim=True)
    left = height + ridge - height * overlap
    size = sqrt(prompt.supports) * nearest * lengths(prompt.y.double(), 1)[:, None, :]
    return torch.where(left > 0, size / left.clamp(min=1e-300), inf)


def cold_misfit_bounds(
    prompt: Prompt, *, ridge: float, kernel: Exponential
) -> tuple[Float[Tensor, "batch r"], Float[Tensor, "batch r"]]:
    """λ‖y‖/(λ + g(1 + δ)) ≤ ‖y − f*(X)‖ ≤ λ‖y‖/(λ + g(1 − δ)): when cold, the supports are memorised.

    g and δ are those of `cold_bound`. The upper bound is at most ‖y‖, whatever δ is.
    """
    height, overlap = (v[:, None] for v in coldness(prompt, kernel))
    size = lengths(prompt.y.double(), 1)
    lower = ridge * size / (ridge + height * (1 + overlap))
    return lower, ridge * size / (ridge + height * (1 - overlap).clamp(min=0))


def hot_temperature(supports: int, reach: float, *, ridge: float, share: float = 0.5) -> float:
    """R²/log(1 + λ(1 − s)/(sk)).

    At a higher temperature, the share s of a centred target is not fitted.
    """
    return reach / log1p(ridge * (1 - share) / (share * supports))


def cold_temperature(supports: int, gap: float, *, share: float = 0.1) -> float:
    """(N² − c)/log((√k + s(k − 1))/s).

    At a lower temperature, |f*(x)| ≤ s‖y‖ at every query. c bounds ⟨Uφ_i, Uφ_j⟩ for i ≠ j and
    ⟨Uφ_i, Uφ(x)⟩; the gap is N² − c > 0.
    """
    return gap / log((sqrt(supports) + share * (supports - 1)) / share)


def warmth(prompt: Prompt, kernel: Exponential) -> Float[Tensor, " batch"]:
    """η = e^{R²/τ} − 1 ≥ |k(a, b) − 1| for all supports a and supports or queries b."""
    both = torch.cat([prompt.phi, prompt.phi_query], 1).double()
    products = kernel.project(prompt.phi.double()) @ kernel.project(both).mT
    return torch.expm1(products.abs().amax((1, 2)) / kernel.temperature)


def coldness(
    prompt: Prompt, kernel: Exponential
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """g = k(a, a), which all supports must share, and δ = (k − 1)·max_{i≠j} K_ij/g."""
    matrix = gram(prompt, kernel)
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    if not torch.allclose(diagonal, diagonal[:, :1], rtol=1e-9, atol=0.0):
        raise Refusal("The cold limit is stated for supports of one norm: rescale the features.")
    height = diagonal[:, 0]
    largest = (matrix - torch.diag_embed(diagonal)).amax((1, 2))
    return height, (prompt.supports - 1) * largest / height
