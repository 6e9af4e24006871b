"""Newton's iteration for the inverse (Schulz 1933), and the solution that it gives: α = X(2y − AXy)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Interval, Machine, Value
from ridgeformer.types import Refusal


class NewtonState(NamedTuple):
    alpha: Value
    inverse: Value | None
    """X, an approximation of A⁻¹; None before the first step."""
    error: float | None
    """e, for which the eigenvalues of XA lie within 1 ± e; None in the plain iteration."""


@dataclass(frozen=True)
class IterativeNewton(Solver):
    """A step squares I − AX, so that the number of correct digits doubles.

    After X ← 2X − XAX the eigenvalues of XA lie in [1 − e², 1]. Multiplied by 2/(2 − e²) they lie
    within 1 ± e²/(2 − e²), which is the best centre: I − AX is then Chebyshev's residual polynomial of
    degree 2^{t−1}. The plain iteration leaves X as it is, and has Richardson's of that degree.

    The solution takes one more step, on the vector alone: with the residual r = y − AXy it is
    α = Xy + Xr = (2X − XAX)y. The residual of α is (I − AX)²y, and what round-off did to X is corrected
    as by iterative refinement.
    """

    plain: bool = field(default=False, metadata={"help": "Leave the spectrum of XA uncentred."})
    interval: Interval | None = None

    name = "newton"
    steps_before_loop = 1

    def init(self, m: Machine) -> NewtonState:
        return NewtonState(m.zeros(), None, None)

    def loop_start(self, m: Machine) -> NewtonState:
        """The first step only chooses a multiple of I; those that follow are alike if they are plain."""
        if not self.plain:
            raise Refusal(
                "every step centres the spectrum by a number of its own; use `plain=True`, whose steps "
                "are all the same."
            )
        return self.step(m, self.init(m), 1)

    def step(self, m: Machine, s: NewtonState, t: int) -> NewtonState:
        lo, hi = self.interval or m.interval("none")
        error = None
        if s.inverse is None:
            X = (2 / (lo + hi)) * m.identity()
            error = None if self.plain else (hi - lo) / (hi + lo)
        else:
            X = 2 * s.inverse - m.product(s.inverse, s.inverse)
            if s.error is not None:
                squared = s.error**2
                X, error = 2 / (2 - squared) * X, squared / (2 - squared)
        X = m.bound(X, lambda: 2 / m.ridge, "the eigenvalues of XA lie between 0 and 2")
        first = m.apply(X, m.target())
        alpha = m.bound(
            first + m.apply(X, m.target() - m.matvec(first)),
            m.solution_norm,
            "the residual polynomial is a square, and at most 1",
        )
        return NewtonState(alpha, X, error)
