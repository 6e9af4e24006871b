"""Chebyshev semi-iteration (Golub & Varga 1961): the best fixed coefficients for an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Interval, Machine, Precondition, Value
from ridgeformer.solvers.richardson import preconditioned


class ChebyshevState(NamedTuple):
    alpha: Value
    previous: Value
    inverse: Value | None
    omega: float


@dataclass(frozen=True)
class Chebyshev(Solver):
    """After t steps the residual polynomial is T_t((c − x)/h) / T_t(c/h), c and h the interval's
    centre and half-width, so the worst mode has shrunk by exactly 1/T_t((κ+1)/(κ−1))."""

    precondition: Precondition = "none"
    interval: Interval | None = None

    name = "chebyshev"
    preconditioners = ("none", "jacobi", "row-sum")

    def init(self, m: Machine) -> ChebyshevState:
        inverse = m.inverse_preconditioner(self.precondition)
        return ChebyshevState(m.zeros(), m.zeros(), inverse, 1.0)

    def step(self, m: Machine, s: ChebyshevState, t: int) -> ChebyshevState:
        lo, hi = self.interval or m.interval(self.precondition)
        centre, rho = (hi + lo) / 2, (hi - lo) / (hi + lo)
        # ω₁ = 1, ω₂ = 1/(1 − ρ²/2), ω_{t+1} = 1/(1 − ω_t ρ²/4): the second is not the general case.
        if t == 1:
            omega = 1.0
        elif t == 2:
            omega = 1 / (1 - rho**2 / 2)
        else:
            omega = 1 / (1 - s.omega * rho**2 / 4)
        step = (1 / centre) * preconditioned(m.target() - m.matvec(s.alpha), s.inverse)
        alpha = m.bound(
            s.previous + omega * (s.alpha - s.previous + step),
            lambda: 2 * m.solution_norm(),
            "the residual polynomial stays within 1 on the interval",
        )
        return ChebyshevState(alpha, s.alpha, s.inverse, omega)
