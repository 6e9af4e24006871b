"""Depth and accuracy: how fast each solver's predictions approach kernel ridge regression.

Every method here starts from α = 0 and satisfies P^{1/2}(α* − α_t) = q_t(S) P^{1/2}α* with a
polynomial q_t and S = P^{−1/2} A P^{−1/2}. The error of a prediction is then bounded by

    |f_t(x) − f*(x)| ≤ √(k(x)ᵀA⁻¹k(x)) · max |q_t(σ)| · ‖α*‖_A,        σ in the spectrum of S,

so that what remains to be found for a method is the factor max |q_t|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import acosh, cosh, exp, sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers import Solver
from ridgeformer.solvers.machine import Interval, Precondition
from ridgeformer.tasks import Prompt
from ridgeformer.theory.sensitivity import residual_polynomials
from ridgeformer.theory.systems import query_weight, system_eigenvalues, target_energy
from ridgeformer.types import Refusal

Factor = Callable[[float, int], float]
"""max |q_t| as a function of the condition number and the number of steps."""


def cg_rate(condition: float) -> float:
    """(√κ − 1)/(√κ + 1)."""
    return (sqrt(condition) - 1) / (sqrt(condition) + 1)


def richardson_rate(condition: float) -> float:
    """(κ − 1)/(κ + 1)."""
    return (condition - 1) / (condition + 1)


def cg_factor(condition: float, steps: int) -> float:
    """2((√κ − 1)/(√κ + 1))^t."""
    return 2 * cg_rate(condition) ** steps


def richardson_factor(condition: float, steps: int) -> float:
    """((κ − 1)/(κ + 1))^t, the residual of the two extreme modes after t Richardson steps."""
    return richardson_rate(condition) ** steps


def chebyshev_factor(condition: float, steps: int) -> float:
    """1/T_t((κ+1)/(κ−1)), the worst mode's residual after t Chebyshev steps."""
    if condition == 1:
        return 1.0 if steps == 0 else 0.0
    exponent = steps * chebyshev_angle(condition)
    # Beyond, cosh would overflow, and 2·exp(−x) is larger than 1/cosh(x) by less than round-off.
    return 1 / cosh(exponent) if exponent < 700 else 2 * exp(-exponent)


def chebyshev_angle(condition: float) -> float:
    """θ with cosh θ = (κ+1)/(κ−1), so that T_t((κ+1)/(κ−1)) = cosh tθ."""
    return acosh((condition + 1) / (condition - 1))


def heavy_ball_factor(condition: float, steps: int) -> float:
    """(1 + t(1 + √β))·√β^t with √β = (√κ−1)/(√κ+1): the mode at the upper end errs by just this."""
    rate = cg_rate(condition)
    return (1 + steps * (1 + rate)) * rate**steps


def prediction_bound(
    prompt: Prompt,
    factors: Float[Tensor, "steps batch"],
    *,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "steps batch q r"]:
    """√(k(x)ᵀA⁻¹k(x)) · factor · ‖α*‖_A, for the given factor of every step and prompt."""
    weight = query_weight(prompt, ridge=ridge, kernel=kernel)
    energy = target_energy(prompt, ridge=ridge, kernel=kernel)
    return factors[:, :, None, None] * weight[None, :, :, None] * energy[None, :, None, :]


def cg_prediction_bound(
    prompt: Prompt,
    *,
    ridge: float,
    steps: int,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, "steps batch q r"]:
    """|f_t(x) − f*(x)| ≤ √(k(x)ᵀA⁻¹k(x)) · 2((√κ−1)/(√κ+1))^t · ‖α*‖_A, for t = 0 … steps.

    Each prompt has its own κ = cond(P^{−1/2} A P^{−1/2}).
    """
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    factors = factors_of(cg_factor, (values[:, -1] / values[:, 0]).tolist(), steps)
    return prediction_bound(prompt, factors, ridge=ridge, kernel=kernel)


def tuned_prediction_bound(
    factor: Factor,
    prompt: Prompt,
    *,
    ridge: float,
    steps: int,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
    interval: Interval | None = None,
) -> Float[Tensor, "steps batch q r"]:
    """|f_t(x) − f*(x)| ≤ √(k(x)ᵀA⁻¹k(x)) · factor(κ, t) · ‖α*‖_A, for t = 0 … steps.

    The factor is that of a method whose coefficients are tuned to one interval for all prompts:
    `richardson_factor`, `chebyshev_factor` or `heavy_ball_factor`. κ = hi/lo is the ratio of the
    interval's ends. An interval that does not contain the spectra of all prompts is refused; if it
    is left out, the smallest one that contains them is used, as in `solve`.
    """
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    extreme = float(values.min()), float(values.max())
    lo, hi = interval or extreme
    # Round-off may put an eigenvalue at an end of the interval slightly beyond that end.
    if extreme[0] < lo * (1 - 1e-9) or extreme[1] > hi * (1 + 1e-9):
        raise Refusal(
            f"The interval [{lo:g}, {hi:g}] does not hold the spectrum [{extreme[0]:g}, {extreme[1]:g}] "
            "of these prompts: widen it."
        )
    factors = factors_of(factor, [hi / lo], steps).expand(-1, len(prompt.phi))
    return prediction_bound(prompt, factors, ridge=ridge, kernel=kernel)


def factors_of(
    factor: Factor, conditions: Sequence[float], steps: int
) -> Float[Tensor, "steps conditions"]:
    """The factor of every step and condition number."""
    values = [[factor(c, t) for c in conditions] for t in range(steps + 1)]
    return torch.tensor(values, dtype=torch.float64)


def polynomial_prediction_bound(
    solver: Solver,
    prompt: Prompt,
    *,
    ridge: float,
    steps: int,
    kernel: Kernel | None = None,
    interval: Interval | None = None,
) -> Float[Tensor, "steps batch q r"]:
    """A bound on |f_t(x) − f*(x)| for any solver with fixed coefficients, for t = 0 … steps.

    It is √(k(x)ᵀA⁻¹k(x)) · max_σ |q_t(σ)| · ‖α*‖_A, where q_t is found by running the solver itself on
    the eigenvalues σ of each prompt. The solver is tuned to `interval`, as in `solve`.
    """
    values = system_eigenvalues(
        prompt, ridge=ridge, kernel=kernel, precondition=solver.precondition
    )
    tuned = interval or (float(values.min()), float(values.max()))
    polynomials = residual_polynomials(
        solver, values.numpy().ravel(), steps=steps, tuned=tuned, ridge=ridge
    )
    factors = torch.from_numpy(polynomials).abs().reshape(steps + 1, *values.shape).amax(-1)
    return prediction_bound(prompt, factors, ridge=ridge, kernel=kernel)


def termination_steps(
    prompt: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
    tolerance: float = 1e-10,
) -> Int[Tensor, " batch"]:
    """The number of distinct eigenvalues of P^{−1/2} A P^{−1/2}.

    Exact CG terminates within this many steps. With P = I this is at most min(k, rank K + 1).
    Eigenvalues closer than `tolerance` times the largest are counted as one.
    """
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    apart = values.diff(dim=-1) > tolerance * values[:, -1:]
    return 1 + apart.sum(-1)
