"""Methods whose polynomials double or triple in degree: Newton's iteration and GD++.

Their factors max |q_t| fit `tuned_prediction_bound`, as those of `depth` do.
"""

from __future__ import annotations

from math import sqrt

from ridgeformer.theory.depth import Factor, chebyshev_factor, richardson_rate
from ridgeformer.types import Refusal


def newton_factor(condition: float, steps: int) -> float:
    """1/T_n((κ+1)/(κ−1))² with n = 2^{t−1}: the square of Chebyshev's factor after n steps."""
    return 1.0 if steps == 0 else chebyshev_factor(condition, 2 ** (steps - 1)) ** 2


def plain_newton_factor(condition: float, steps: int) -> float:
    """((κ − 1)/(κ + 1))^{2^t}: Richardson's factor after 2^t steps."""
    return 1.0 if steps == 0 else float(richardson_rate(condition) ** (2.0**steps))


def reshaped_condition(condition: float) -> float:
    """4(1 + s + s²)³/(27s²(1 + s)²) with s = κ^{−1/2}: the condition number after a step of GD++."""
    s = 1 / sqrt(condition)
    return max(1.0, 4 * (1 + s + s * s) ** 3 / (27 * s * s * (1 + s) ** 2))


def gd_plus_factor(condition: float, steps: int) -> float:
    """Π_{s<t} (κ_s − 1)/(κ_s + 1), where κ_{s+1} is the reshaped condition number of κ_s."""
    factor = 1.0
    for _ in range(steps):
        factor *= richardson_rate(condition)
        condition = reshaped_condition(condition)
    return factor


def steps_needed(factor: Factor, condition: float, tolerance: float) -> int:
    """The least t with factor(κ, t) ≤ ε, for a factor that falls with t."""
    if not 0 < tolerance < 1 or condition < 1:
        raise Refusal(
            f"ε must lie in (0, 1) and κ must be at least 1; got {tolerance}, {condition}."
        )
    most = 1
    while factor(condition, most) > tolerance:
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if factor(condition, middle) <= tolerance else (middle, most)
    return most
