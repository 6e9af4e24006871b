"""Richardson iteration and gradient descent: α ← α + η P⁻¹(y − Aα)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Machine, Precondition, Value


class RichardsonState(NamedTuple):
    alpha: Value
    inverse: Value | None
    """The diagonal of P⁻¹; None when P = I."""


@dataclass(frozen=True)
class Richardson(Solver):
    """Error of every mode falls by at least (κ−1)/(κ+1) a step, κ = cond(P⁻¹A)."""

    precondition: Precondition = "none"

    name = "richardson"

    def init(self, m: Machine) -> RichardsonState:
        return RichardsonState(m.zeros(), m.inverse_preconditioner(self.precondition))

    def step(self, m: Machine, s: RichardsonState, t: int) -> RichardsonState:
        lo, hi = m.interval(self.precondition)
        eta = 2 / (lo + hi)  # the best constant for spectra in [lo, hi]
        residual = m.target() - m.matvec(s.alpha)
        alpha = m.bound(
            s.alpha + eta * preconditioned(residual, s.inverse),
            lambda: self.growth(m, eta) * m.solution_norm(),
            "‖α_t‖_A² ≤ ‖α*‖_A² + 3η·yᵀP⁻¹y, since (1 − ησ)^t is negative only where ησ > 1",
        )
        return s._replace(alpha=alpha)

    def growth(self, m: Machine, eta: float) -> float:
        """How far ‖α_t‖ may exceed ‖y‖/λ on its way."""
        least = m.preconditioner_range(self.precondition)[0]
        return min(2.0, sqrt(1 + 3 * eta * m.ridge / least))


@dataclass(frozen=True)
class GradientDescent(Richardson):
    """Gradient descent on ½αᵀAα − yᵀα, which is Richardson iteration with P = I."""

    name = "gd"


def preconditioned(residual: Value, inverse: Value | None) -> Value:
    """P⁻¹r for a diagonal P."""
    return residual if inverse is None else inverse * residual
