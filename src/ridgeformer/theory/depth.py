"""Depth and accuracy: how fast each solver's predictions approach kernel ridge regression."""

from __future__ import annotations

from math import acosh, cosh, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel, Linear
from ridgeformer.solvers import condition_number, krr_coefficients
from ridgeformer.tasks import Prompt


def cg_rate(condition: float) -> float:
    """(√κ − 1)/(√κ + 1)."""
    return (sqrt(condition) - 1) / (sqrt(condition) + 1)


def richardson_rate(condition: float) -> float:
    """(κ − 1)/(κ + 1)."""
    return (condition - 1) / (condition + 1)


def chebyshev_factor(condition: float, steps: int) -> float:
    """1/T_t((κ+1)/(κ−1)), the worst mode's residual after t Chebyshev steps."""
    if condition == 1:
        return 1.0 if steps == 0 else 0.0
    return 1 / cosh(steps * acosh((condition + 1) / (condition - 1)))


def cg_prediction_bound(
    prompt: Prompt, *, ridge: float, steps: int, kernel: Kernel | None = None
) -> Float[Tensor, "steps batch q r"]:
    """|f_t(x) − f*(x)| ≤ √(k(x)ᵀA⁻¹k(x)) · 2((√κ−1)/(√κ+1))^t · ‖α*‖_A, for t = 0 … steps."""
    kernel = kernel or Linear()
    phi, query = prompt.phi.double(), prompt.phi_query.double()
    alpha = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    energy = (alpha * prompt.y.double()).sum(1).clamp(min=0).sqrt()  # ‖α*‖_A² = α*ᵀy
    cross = kernel(query, phi)
    at_queries = krr_coefficients(Prompt(phi, cross.mT, query), ridge=ridge, kernel=kernel)
    weight = (cross.mT * at_queries).sum(1).clamp(min=0).sqrt()  # one per query
    rates = [cg_rate(float(c)) for c in condition_number(prompt, ridge=ridge, kernel=kernel)]
    powers = torch.tensor([[2 * rate**t for rate in rates] for t in range(steps + 1)])
    return powers.double()[:, :, None, None] * weight[None, :, :, None] * energy[None, :, None, :]
