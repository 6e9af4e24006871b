"""The width that is enough, in terms of the effective dimension."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers import effective_dimension
from ridgeformer.tasks import Prompt
from ridgeformer.theory.width_rank import valid
from ridgeformer.types import Refusal


def eigenvalue_bound(
    prompt: Prompt, *, rank: int, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """σ_{m+1} ≤ λ d_eff/(m + 1 − d_eff) when m + 1 > d_eff; otherwise the bound is infinite."""
    dimension = effective_dimension(prompt, ridge=ridge, kernel=kernel)
    left = valid(rank) + 1 - dimension
    return torch.where(left > 0, ridge * dimension / left.clamp(min=1e-300), torch.inf)


def relative_error_bound(
    prompt: Prompt, *, rank: int, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """λ‖A⁻¹ − Â⁻¹‖₂ ≤ d_eff/(m + 1) for eigen-truncation to rank m."""
    return effective_dimension(prompt, ridge=ridge, kernel=kernel) / (valid(rank) + 1)


def sufficient_width(
    prompt: Prompt, *, tolerance: float, ridge: float, kernel: Kernel | None = None
) -> Int[Tensor, " batch"]:
    """The least m with m + 1 ≥ (1 + 1/δ)·d_eff, or k if that is less.

    Then σ_{m+1} ≤ δλ, and eigen-truncation to rank m has λ‖A⁻¹ − Â⁻¹‖₂ ≤ δ/(1 + δ).
    """
    if not tolerance > 0:
        raise Refusal(f"The tolerance must be positive, got {tolerance}.")
    dimension = effective_dimension(prompt, ridge=ridge, kernel=kernel)
    width = ((1 + 1 / tolerance) * dimension - 1).ceil().clamp(min=0, max=prompt.supports)
    return width.long()
