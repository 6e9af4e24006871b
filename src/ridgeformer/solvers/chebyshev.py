"""Chebyshev semi-iteration (Golub & Varga 1961): the best fixed coefficients for an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Interval, Machine, Precondition, Value
from ridgeformer.solvers.richardson import preconditioned


class ChebyshevState(NamedTuple):
    alpha: Value
    previous: Value | None
    """α_{t−1}; None before the first step."""
    inverse: Value | None
    divisor: Value
    """1/ω of the coming step. A number, unless a loop has to work it out pass by pass."""


@dataclass(frozen=True)
class Chebyshev(Solver):
    """Chebyshev semi-iteration, whose fixed coefficients are the best ones for an interval of eigenvalues.

    After t steps the residual polynomial is T_t((c − x)/h) / T_t(c/h), c and h the interval's
    centre and half-width, so the worst mode has shrunk by exactly 1/T_t((κ+1)/(κ−1)).

    precondition   the preconditioner: `none`, the diagonal (`jacobi`), or row sums (`row-sum`)
    interval   where the eigenvalues lie, if not where the target or the prompts say
    """

    precondition: Precondition = "none"
    interval: Interval | None = None

    name = "chebyshev"
    preconditioners = ("none", "jacobi", "row-sum")

    def init(self, m: Machine) -> ChebyshevState:
        inverse = m.inverse_preconditioner(self.precondition)
        # ω₁ = 1, ω₂ = 1/(1 − ρ²/2), ω_{t+1} = 1/(1 − ω_t ρ²/4). With the general rule ω₂ follows from
        # ω₁ = 2, and a first step with ω₁ = 2 is right if it comes from the iterate that it leads to.
        return ChebyshevState(m.zeros(), None, inverse, 0.5)

    def loop_start(self, m: Machine) -> ChebyshevState:
        s = self.init(m)
        return s._replace(previous=s.alpha + self.correction(m, s))

    def step(self, m: Machine, s: ChebyshevState, t: int) -> ChebyshevState:
        rho = self.centre_and_radius(m)[1]
        correction = self.correction(m, s)
        previous = s.alpha + correction if s.previous is None else s.previous
        omega = m.reciprocal_within(s.divisor, lambda: (0.5, 1.0), "1 ≤ ω ≤ 2")
        alpha = m.bound(
            previous + omega * (s.alpha - previous + correction),
            lambda: 2 * m.solution_norm(),
            "the residual polynomial stays within 1 on the interval",
        )
        return ChebyshevState(alpha, s.alpha, s.inverse, 1 - rho**2 / 4 * omega)

    def centre_and_radius(self, m: Machine) -> tuple[float, float]:
        """The centre of the interval, and its half-width in units of that."""
        lo, hi = self.interval or m.interval(self.precondition)
        return (hi + lo) / 2, (hi - lo) / (hi + lo)

    def correction(self, m: Machine, s: ChebyshevState) -> Value:
        """P⁻¹(y − Aα)/c"""
        residual = preconditioned(m.target() - m.matvec(s.alpha), s.inverse)
        return (1 / self.centre_and_radius(m)[0]) * residual
