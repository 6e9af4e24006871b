"""Looped models: what a recurrence that a loop runs does with the errors of its reciprocals."""

from __future__ import annotations

from math import cosh, sqrt

import numpy as np

from ridgeformer.theory.depth import chebyshev_angle


def chebyshev_divisors(condition: float, steps: int) -> np.ndarray:
    """1/ω_t = ρτ_t/2τ_{t−1} with τ_t = T_t(1/ρ), for t = 1 … steps; ω₁ = 2 is what a loop starts from.

    They rise from 1/2 to (1 + √(1 − ρ²))/2, where ρ = (κ − 1)/(κ + 1).
    """
    angle = chebyshev_angle(condition)
    rho = 1 / cosh(angle)
    # cosh(tθ)/cosh((t−1)θ), in a form that does not overflow
    fading = np.exp(-2 * angle * np.arange(steps + 1))
    ratios: np.ndarray = np.exp(angle) * (1 + fading[1:]) / (1 + fading[:-1])
    return rho * ratios / 2


def divisor_error_bound(error: float, condition: float) -> float:
    """ε(√κ + 1)²/2√κ: how far 1/ω is off after any number of passes, each of whose reciprocals is too
    small by at most ε of itself."""
    root = sqrt(condition)
    return error * (root + 1) ** 2 / (2 * root)
