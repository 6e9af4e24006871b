"""Diagonal preconditioners: their effect on the condition number, and how good Jacobi's is."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers.machine import Precondition
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import preconditioned_system, system_eigenvalues


def preconditioned_condition(
    prompt: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, " batch"]:
    """κ = cond(P^{−1/2} A P^{−1/2}), in which all rates of `ridgeformer.theory.depth` are stated."""
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    return values[:, -1] / values[:, 0]


def jacobi_condition_bound(
    prompt: Prompt,
    scaling: Float[Tensor, "batch k 1"],
    *,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, " batch"]:
    """cond(J^{−1/2} A J^{−1/2}) ≤ λ_max(J^{−1/2} A J^{−1/2}) · cond(D A D) ≤ k · cond(D A D).

    J = diag(A), and D is any positive diagonal `scaling` (van der Sluis 1969). The middle term is
    returned.
    """
    system = preconditioned_system(prompt, ridge=ridge, kernel=kernel)
    scaled: Tensor = torch.linalg.eigvalsh(scaling * system * scaling.mT)
    jacobi = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition="jacobi")
    return jacobi[:, -1] * scaled[:, -1] / scaled[:, 0]
