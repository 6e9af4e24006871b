"""Where a solver must fail: the depth, condition number and ridge at which T steps stop reaching ε.

For every method here the worst system of condition number κ is known, so that each number is a
threshold: on one side the bound promises ε for all systems, on the other some system misses it.
"""

from __future__ import annotations

from math import acos, acosh, ceil, cos, cosh, exp, inf, log

from ridgeformer.solvers.machine import Interval
from ridgeformer.theory.depth import chebyshev_factor, richardson_rate
from ridgeformer.types import Refusal


def chebyshev_steps(condition: float, tolerance: float) -> int:
    """The least t with 1/T_t((κ+1)/(κ−1)) ≤ ε: t = ⌈arcosh(1/ε)/arcosh((κ+1)/(κ−1))⌉.

    This many steps of Chebyshev iteration or of CG bring every system of condition number κ to ε.
    With fewer steps, some system, whose smallest eigenvalue exceeds λ, stays above ε even with CG, and
    hence with every method whose iterates lie in the Krylov space.
    """
    check(tolerance)
    if condition == 1:
        return 1
    return ceil(acosh(1 / tolerance) / acosh((condition + 1) / (condition - 1)))


def richardson_steps(condition: float, tolerance: float) -> int:
    """The least t with ((κ−1)/(κ+1))^t ≤ ε, for Richardson iteration and gradient descent."""
    check(tolerance)
    if condition == 1:
        return 1
    return ceil(log(tolerance) / log(richardson_rate(condition)))


def chebyshev_condition(steps: int, tolerance: float) -> float:
    """The κ with 1/T_T((κ+1)/(κ−1)) = ε: (c + 1)/(c − 1) with c = cosh(arcosh(1/ε)/T).

    Up to this κ, T steps of Chebyshev iteration or of CG bring every system to ε; beyond it they
    do not.
    """
    check(tolerance)
    c = cosh(acosh(1 / tolerance) / steps)
    return (c + 1) / (c - 1)


def richardson_condition(steps: int, tolerance: float) -> float:
    """The κ with ((κ−1)/(κ+1))^T = ε: (1 + ε^{1/T})/(1 − ε^{1/T})."""
    check(tolerance)
    root = exp(log(tolerance) / steps)
    return (1 + root) / (1 - root)


def chebyshev_residual(eigenvalue: float, interval: Interval, steps: int) -> float:
    """|T_T((c − σ)/h)|/T_T(c/h), the residual of Chebyshev tuned to [c − h, c + h] on a mode σ.

    It is at most 1/T_T(c/h) inside the interval. Beyond the upper end it grows, and passes 1 at
    σ = 2c.
    """
    lo, hi = interval
    x = abs(hi + lo - 2 * eigenvalue) / (hi - lo)
    value = cosh(steps * acosh(x)) if x > 1 else abs(cos(steps * acos(x)))
    return value * chebyshev_factor(hi / lo, steps)


def least_ridge(condition: float, largest: float, smallest: float = 0.0) -> float:
    """The λ with (σ_1 + λ)/(σ_k + λ) = κ: (σ_1 − κσ_k)/(κ − 1), or 0 if every λ > 0 is enough.

    cond(K + λI) falls as λ rises, so that below this λ it exceeds κ. If K is singular, the
    condition number is 1 + σ_1/λ, and λ alone keeps it finite.
    """
    if condition <= 1:
        return inf
    return max((largest - condition * smallest) / (condition - 1), 0.0)


def misfit_bounds(ridge: float, largest: float, smallest: float, steps: int) -> tuple[float, float]:
    """λ/(λ+σ_1) − s ≤ ‖y − f_T(X)‖/‖y‖ ≤ λ/(λ+σ_r) + s with s = σ_1/(λ+σ_1) · 1/T_T((κ+1)/(κ−1)).

    This holds at the supports X for Chebyshev iteration tuned to [λ + σ_r, λ + σ_1], if the targets
    lie in the range of K and the positive eigenvalues of K lie in [σ_r, σ_1]. The first term on
    either side is what the ridge itself leaves unfitted.
    """
    factor = chebyshev_factor((largest + ridge) / (smallest + ridge), steps)
    slack = largest / (largest + ridge) * factor
    return ridge / (ridge + largest) - slack, ridge / (ridge + smallest) + slack


def check(tolerance: float) -> None:
    if not 0 < tolerance < 1:
        raise Refusal(f"The tolerance must lie between 0 and 1, got {tolerance}.")
