"""Kernel ridge regression in closed form, and the numbers that describe its system."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


def krr_coefficients(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch k r"]:
    """α* = (K + λI)⁻¹ y by a batched Cholesky factorisation in float64."""
    if not 0 < ridge < float("inf"):
        raise Refusal(f"The ridge must be positive and finite, got {ridge}: choose λ > 0.")
    phi = prompt.phi.double()
    system = (kernel or DEFAULT_KERNEL)(phi, phi)
    system.diagonal(dim1=-2, dim2=-1).add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed.any():
        raise Refusal(
            f"K + λI is not numerically positive definite for {int((failed > 0).sum())} of "
            f"{len(failed)} prompts at λ = {ridge:g}: increase the ridge."
        )
    return torch.cholesky_solve(prompt.y.double(), factor)


def krr(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch q r"]:
    """f*(x) = k(x)ᵀ(K + λI)⁻¹y at the queries, in float64."""
    alpha = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    cross = (kernel or DEFAULT_KERNEL)(prompt.phi_query.double(), prompt.phi.double())
    return cross @ alpha


def kernel_eigenvalues(prompt: Prompt, kernel: Kernel | None = None) -> Float[Tensor, "batch k"]:
    """The k eigenvalues of K in rising order; from the p×p matrix when that is the smaller one."""
    kernel, phi = kernel or DEFAULT_KERNEL, prompt.phi.double()
    factor = kernel.factor(phi)
    values: Tensor
    if factor is None:
        values = torch.linalg.eigvalsh(kernel(phi, phi))
    else:
        few: Tensor = torch.linalg.eigvalsh(factor.mT @ factor)
        values = torch.cat([few.new_zeros(len(few), prompt.supports - few.shape[-1]), few], dim=-1)
    return values.clamp(min=0)


def condition_number(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """κ = cond(K + λI)."""
    values = kernel_eigenvalues(prompt, kernel)
    return (values[:, -1] + ridge) / (values[:, 0] + ridge)


def effective_dimension(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """d_eff(λ) = Σ σ_i/(σ_i + λ), the number of directions that the ridge leaves alive."""
    values = kernel_eigenvalues(prompt, kernel)
    return (values / (values + ridge)).sum(-1)
