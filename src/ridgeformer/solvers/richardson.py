"""Richardson iteration and gradient descent: α ← α + η P⁻¹(y − Aα)."""

from __future__ import annotations

from dataclasses import dataclass
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
            lambda: 2 * m.solution_norm(),
            "P⁻¹A is symmetric in the A-norm, where the error never exceeds its start",
        )
        return s._replace(alpha=alpha)


@dataclass(frozen=True)
class GradientDescent(Richardson):
    """Gradient descent on ½αᵀAα − yᵀα, which is Richardson iteration with P = I."""

    name = "gd"


def preconditioned(residual: Value, inverse: Value | None) -> Value:
    """P⁻¹r for a diagonal P."""
    return residual if inverse is None else inverse * residual
