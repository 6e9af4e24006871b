"""Richardson iteration and gradient descent: α ← α + η P⁻¹(y − Aα)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Interval, Machine, Precondition, Value


class RichardsonState(NamedTuple):
    alpha: Value
    inverse: Value | None
    """The diagonal of P⁻¹; None when P = I."""


class Stationary(Solver):
    """The same step again and again: the error of every mode falls by at least (κ−1)/(κ+1) in each,
    κ = cond(P⁻¹A)."""

    def init(self, m: Machine) -> RichardsonState:
        return RichardsonState(m.zeros(), m.inverse_preconditioner(self.precondition))

    def step(self, m: Machine, s: RichardsonState, t: int) -> RichardsonState:
        eta = self.step_size(m, t)
        residual = m.target() - m.matvec(s.alpha)
        alpha = m.bound(
            s.alpha + eta * preconditioned(residual, s.inverse),
            lambda: self.growth(m, eta) * m.solution_norm(),
            "‖α_t‖_A² ≤ ‖α*‖_A² + 3η·yᵀP⁻¹y, since (1 − ησ)^t is negative only where ησ > 1",
        )
        return s._replace(alpha=alpha)

    def step_size(self, m: Machine, t: int) -> float:
        """The best constant for spectra in [lo, hi]."""
        lo, hi = self.interval or m.interval(self.precondition)
        return 2 / (lo + hi)

    def growth(self, m: Machine, eta: float) -> float:
        """How far ‖α_t‖ may exceed ‖y‖/λ on its way."""
        least = m.preconditioner_range(self.precondition)[0]
        return min(2.0, sqrt(1 + 3 * eta * m.ridge / least))


@dataclass(frozen=True)
class Richardson(Stationary):
    """Richardson iteration with a diagonal preconditioner.

    precondition   the preconditioner: `none`, the diagonal (`jacobi`), or row sums (`row-sum`)
    interval   where the eigenvalues lie, if not where the target or the prompts say
    """

    precondition: Precondition = "none"
    interval: Interval | None = None

    name = "richardson"
    preconditioners = ("none", "jacobi", "row-sum")


@dataclass(frozen=True)
class GradientDescent(Stationary):
    """Gradient descent on ½αᵀAα − yᵀα, which is Richardson iteration with P = I.

    interval   where the eigenvalues lie, if not where the target or the prompts say
    """

    interval: Interval | None = None

    name = "gd"


def preconditioned(residual: Value, inverse: Value | None) -> Value:
    """P⁻¹r for a diagonal P."""
    return residual if inverse is None else inverse * residual
