"""Kernel ridge regression in closed form, and the numbers that describe its system."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.kernels import Kernel, kernel_or_default
from ridgeformer.solvers.ridge import UNIT, check_ridge, is_lost, largest_entry
from ridgeformer.tasks import Prompt, check_prompt
from ridgeformer.types import Refusal


def krr_coefficients(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch k r"]:
    """α* = (K + λI)⁻¹ y by a batched Cholesky factorisation in float64.

    A λ that `check_ridge` calls lost is taken where K, with its diagonal scaled to 1, is regular without it.
    """
    check_prompt(prompt)
    check_ridge(ridge)
    kernel, phi = kernel_or_default(kernel), prompt.phi.double()
    system = kernel(phi, phi)
    system.diagonal(dim1=-2, dim2=-1).add_(ridge)
    if not torch.isfinite(system).all():
        raise Refusal(
            f"Values of the {kernel.name} kernel leave the range of float64: scale the features down."
        )
    largest = largest_entry(kernel, prompt.to(torch.float64))
    if is_lost(ridge, largest) and singular(system).any():
        check_ridge(ridge, largest)
    factor, failed = torch.linalg.cholesky_ex(system)
    alpha: Tensor = torch.cholesky_solve(prompt.y.double(), factor)
    if failed.any():  # by round-off in K, which shows where λ is close to it
        few = failed > 0
        alpha[few] = by_eigenvectors(system[few], prompt.y[few].double(), ridge)
    return alpha


def singular(system: Float[Tensor, "batch k k"]) -> Bool[Tensor, " batch"]:
    """Which matrices are singular up to round-off when their diagonals are scaled to 1."""
    scale = system.diagonal(dim1=-2, dim2=-1).sqrt()
    values = torch.linalg.eigvalsh(system / (scale[:, :, None] * scale[:, None, :]))
    found: Tensor = values[:, 0] <= 16 * system.shape[-1] * UNIT["float64"] * values[:, -1]
    return found


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
    """Kernel ridge regression in closed form: f*(x) = k(x)ᵀ(K + λI)⁻¹y at the queries, in float64.

    prompt   the problems, with supports (φ, y) and queries
    ridge   λ, which must be positive
    kernel   the kernel of K and k(x), `Linear()` if it is left out
    """
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
    """κ = cond(K + λI) of every problem, for λ = `ridge`."""
    values = kernel_eigenvalues(prompt, kernel)
    return (values[:, -1] + ridge) / (values[:, 0] + ridge)


def effective_dimension(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """d_eff(λ) = Σ σ_i/(σ_i + λ) over eigenvalues of K, the number of directions that the ridge leaves alive."""
    values = kernel_eigenvalues(prompt, kernel)
    return (values / (values + ridge)).sum(-1)
