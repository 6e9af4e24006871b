"""Kernel ridge regression in closed form, and the numbers that describe its system."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel, kernel_or_default
from ridgeformer.solvers.ridge import check_ridge, largest_entry
from ridgeformer.tasks import Prompt, check_prompt
from ridgeformer.types import Refusal


def krr_coefficients(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch k r"]:
    """α* = (K + λI)⁻¹ y by a batched Cholesky factorisation in float64, for every λ that `check_ridge` takes."""
    check_prompt(prompt)
    kernel, phi = kernel_or_default(kernel), prompt.phi.double()
    check_ridge(ridge, largest_entry(kernel, prompt.to(torch.float64)))
    system = kernel(phi, phi)
    system.diagonal(dim1=-2, dim2=-1).add_(ridge)
    if not torch.isfinite(system).all():
        raise Refusal(
            f"Values of the {kernel.name} kernel leave the range of float64: scale the features down."
        )
    factor, failed = torch.linalg.cholesky_ex(system)
    alpha: Tensor = torch.cholesky_solve(prompt.y.double(), factor)
    if failed.any():  # by round-off in K, which shows where λ is close to it
        few = failed > 0
        alpha[few] = by_eigenvectors(system[few], prompt.y[few].double(), ridge)
    return alpha


def by_eigenvectors(
    system: Float[Tensor, "batch k k"], y: Float[Tensor, "batch k r"], ridge: float
) -> Float[Tensor, "batch k r"]:
    """A⁻¹y, with eigenvalues of A below λ, which only round-off makes, put back to λ."""
    values, vectors = torch.linalg.eigh(system)
    found: Tensor = vectors @ ((vectors.mT @ y) / values.clamp(min=ridge)[..., None])
    return found


def krr(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch q r"]:
    """f*(x) = k(x)ᵀ(K + λI)⁻¹y at the queries, in float64."""
    alpha = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    cross = kernel_or_default(kernel)(prompt.phi_query.double(), prompt.phi.double())
    return cross @ alpha


def kernel_eigenvalues(prompt: Prompt, kernel: Kernel | None = None) -> Float[Tensor, "batch k"]:
    """The k eigenvalues of K in rising order; from the p×p matrix when that is the smaller one."""
    check_prompt(prompt)
    kernel, phi = kernel_or_default(kernel), prompt.phi.double()
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
