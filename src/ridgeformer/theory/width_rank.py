"""Width and rank: the error of a kernel matrix of low rank."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers import kernel_eigenvalues
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import gram, spectral
from ridgeformer.types import Refusal


def resolvent_bound(distance: Float[Tensor, "*batch"], *, ridge: float) -> Float[Tensor, "*batch"]:
    """‖A⁻¹ − Â⁻¹‖₂ ≤ e/(λ(λ + e)) for positive semi-definite K and K̂ with ‖K − K̂‖₂ ≤ e.

    Equality holds for eigen-truncation to rank m, with e = σ_{m+1}.
    """
    return distance / (ridge * (ridge + distance))


def rank_error(
    prompt: Prompt, *, rank: int, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """σ_{m+1}/(λ(λ + σ_{m+1})).

    This is the least ‖A⁻¹ − Â⁻¹‖₂ of any K̂ of rank m, and eigen-truncation attains it.
    """
    return resolvent_bound(eigenvalue_after(prompt, rank=rank, kernel=kernel), ridge=ridge)


def tail_bound(
    prompt: Prompt, *, rank: int, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """(1/λ²) Σ_{i>m} σ_i ≥ ‖A⁻¹ − Â⁻¹‖₂ for eigen-truncation to rank m; looser than `rank_error`."""
    values = kernel_eigenvalues(prompt, kernel)
    kept = min(valid(rank), prompt.supports)
    return values[:, : prompt.supports - kept].sum(-1) / ridge**2


def eigenvalue_after(
    prompt: Prompt, *, rank: int, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """σ_{m+1}, the least ‖K − K̂‖₂ of any K̂ of rank m; 0 when m ≥ k."""
    values = kernel_eigenvalues(prompt, kernel).flip(-1)
    return values[:, rank] if valid(rank) < prompt.supports else torch.zeros_like(values[:, 0])


def eigen_truncation(
    prompt: Prompt, *, rank: int, kernel: Kernel | None = None
) -> Float[Tensor, "batch k k"]:
    """K̂ = Σ_{i≤m} σ_i u_i u_iᵀ."""
    values: Tensor
    vectors: Tensor
    values, vectors = torch.linalg.eigh(gram(prompt, kernel))
    kept = torch.arange(prompt.supports) >= prompt.supports - valid(rank)
    return (vectors * (values.clamp(min=0) * kept)[:, None, :]) @ vectors.mT


def resolvent_difference(
    exact: Float[Tensor, "batch k k"], approximate: Float[Tensor, "batch k k"], *, ridge: float
) -> Float[Tensor, " batch"]:
    """‖(K + λI)⁻¹ − (K̂ + λI)⁻¹‖₂, computed from the two matrices."""
    shift = ridge * torch.eye(exact.shape[-1], dtype=exact.dtype)
    difference = torch.linalg.inv(exact + shift) - torch.linalg.inv(approximate + shift)
    return spectral(difference)


def valid(rank: int) -> int:
    if rank < 0:
        raise Refusal(f"A rank cannot be negative, got {rank}.")
    return rank
