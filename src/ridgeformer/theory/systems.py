"""The matrices and norms that the theorems are stated in, computed in float64."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.solvers import EagerMachine, krr_coefficients
from ridgeformer.solvers.machine import Precondition
from ridgeformer.tasks import Prompt


def gram(prompt: Prompt, kernel: Kernel | None = None) -> Float[Tensor, "batch k k"]:
    """The kernel matrix K of the supports."""
    phi = prompt.phi.double()
    return (kernel or DEFAULT_KERNEL)(phi, phi)


def cross(prompt: Prompt, kernel: Kernel | None = None) -> Float[Tensor, "batch q k"]:
    """k(x)ᵀ, one row per query."""
    return (kernel or DEFAULT_KERNEL)(prompt.phi_query.double(), prompt.phi.double())


def preconditioned_system(
    prompt: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, "batch k k"]:
    """S = P^{−1/2} A P^{−1/2}, which has the eigenvalues of P⁻¹A and is symmetric."""
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    system = machine.dense_system()
    inverse = machine.inverse_preconditioner(precondition)
    return system if inverse is None else inverse.sqrt() * system * inverse.sqrt().mT


def system_eigenvalues(
    prompt: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, "batch k"]:
    """The eigenvalues of S in ascending order."""
    system = preconditioned_system(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    values: Tensor = torch.linalg.eigvalsh(system)
    if precondition == "none":  # K is positive semi-definite, up to round-off
        values = values.clamp(min=ridge)
    return values


def target_energy(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch r"]:
    """‖α*‖_A = √(α*ᵀy)."""
    alpha = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    return (alpha * prompt.y.double()).sum(1).clamp(min=0).sqrt()


def query_weight(
    prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch q"]:
    """√(k(x)ᵀA⁻¹k(x))."""
    columns = cross(prompt, kernel).mT
    solved = krr_coefficients(
        Prompt(prompt.phi.double(), columns, prompt.phi_query.double()), ridge=ridge, kernel=kernel
    )
    return (columns * solved).sum(1).clamp(min=0).sqrt()


def energy_error(
    alphas: Float[Tensor, "steps batch k r"],
    prompt: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "steps batch r"]:
    """‖α_t − α*‖_A of every iterate and output."""
    system = preconditioned_system(prompt, ridge=ridge, kernel=kernel)
    error = alphas.double() - krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    return (error * (system @ error)).sum(2).clamp(min=0).sqrt()


def spectral(matrix: Float[Tensor, "batch m n"]) -> Float[Tensor, " batch"]:
    """The spectral norm ‖·‖₂ of each matrix."""
    norm: Tensor = torch.linalg.matrix_norm(matrix, 2)
    return norm


def lengths(vectors: Tensor, dim: int) -> Tensor:
    """Euclidean norms along a dimension."""
    norm: Tensor = torch.linalg.vector_norm(vectors, dim=dim)
    return norm
