"""Mat-vecs with errors: their effect on methods with fixed coefficients, and on CG."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.solvers import EagerMachine, Solver
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.theory.sensitivity import sensitivity
from ridgeformer.theory.systems import cross, lengths, preconditioned_system, system_eigenvalues


def perturbed_prediction_bound(
    solver: Solver,
    prompt: Prompt,
    *,
    ridge: float,
    steps: int,
    residual_error: float,
    kernel: Kernel | None = None,
    interval: Interval | None = None,
) -> Float[Tensor, "batch q"]:
    """A bound on |f̂_T(x) − f_T(x)| for T ≤ steps, when every product with A carries an error.

    It is √k(x, x)·e·C·Σ_s max_σ √(σ − λ)|R_{T,s}(σ)| for a solver with fixed coefficients and P = I, and
    √k(x, x)·(e/√min P)·C·Σ_s max_σ √σ|R_{T,s}(σ)| with a preconditioner. e bounds the norm of each error,
    R_{T,s} is the response of iterate T to the error of the s-th product, and σ runs over the interval
    that the method is tuned to, which must contain the spectrum. C = 2^{1/4} accounts for taking
    the maxima over Chebyshev points only. The largest sum over T ≤ steps is used.
    """
    values = system_eigenvalues(
        prompt, ridge=ridge, kernel=kernel, precondition=solver.precondition
    )
    tuned = interval or (float(values.min()), float(values.max()))
    offset, least = ridge, torch.ones(len(prompt.phi), dtype=torch.float64)
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    inverse = machine.inverse_preconditioner(solver.precondition)
    if inverse is not None:
        offset, least = 0.0, 1 / inverse.amax((1, 2))
    amplified = sensitivity(solver, steps=steps, tuned=tuned, spectrum=tuned, offset=offset)
    height = (kernel or DEFAULT_KERNEL).diagonal(prompt.phi_query.double())[..., 0].sqrt()
    return height * amplified.prediction * residual_error / least.sqrt()[:, None]


def residual_gap_bound(
    alphas: Float[Tensor, "steps batch k r"], *, operator_error: float
) -> Float[Tensor, "steps batch r"]:
    """‖(y − Aα_t) − r_t‖ ≤ Σ_{s<t} ‖γ_s E_s p_s‖ ≤ ε·Σ_{s<t} ‖α_{s+1} − α_s‖, for t = 0 … steps.

    r_t is the residual that CG updates by its recurrence, and (A + E_s)p_s with ‖E_s‖₂ ≤ ε is the
    product that it used in place of A p_s.
    """
    moved = lengths(alphas.double().diff(dim=0), 2)
    return operator_error * torch.cat([torch.zeros_like(moved[:1]), moved]).cumsum(0)[: len(alphas)]


def residual_prediction_bound(
    residual: Float[Tensor, "steps batch k r"],
    gap: Float[Tensor, "steps batch r"],
    prompt: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "steps batch q r"]:
    """|f_t(x) − f*(x)| ≤ ‖A⁻¹k(x)‖·(‖r_t‖ + gap_t), and ‖A⁻¹k(x)‖ ≤ √(k(x, x)/λ)/2.

    The bound needs only what an inexact CG knows of itself: the residual r_t of its recurrence, and
    a bound on the gap to the true residual. The first, smaller constant is used.
    """
    system = preconditioned_system(prompt, ridge=ridge, kernel=kernel)
    solved: Tensor = torch.linalg.solve(system, cross(prompt, kernel).mT)
    weight = lengths(solved, 1)
    left = lengths(residual.double(), 2) + gap
    return weight[None, :, :, None] * left[:, :, None, :]
