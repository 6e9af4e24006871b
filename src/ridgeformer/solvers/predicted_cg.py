"""Conjugate gradients in an order that leaves nothing to wait for: the curvature is predicted.

The iterates are the textbook's, and so is every number that enters them: A p, pᵀA p and rᵀr are computed
from the vectors themselves. What differs is that A r is computed as well. In exact arithmetic

    pᵀAp = rᵀAr − β²·p₋ᵀAp₋    (Chronopoulos & Gear 1989),

which is known before A p is. A machine that needs layers for a reciprocal begins with that of the
prediction, and only divides it by their quotient, a number near 1, when pᵀAp itself is there. So
round-off in the difference, which cancels, enters no iterate; methods that use the prediction as pᵀAp
lose digits by it. The price is a second product with K in each step.

As in `conjugate_gradient`, the residual has a unit s that is renewed each step. The direction that is
multiplied by K is in a unit of its own, p̃ = p/ρ up to a factor near 1, so that pᵀAp̃ has a bounded range
as soon as ρ is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.cg_bounds import ROOM, CGBounds
from ridgeformer.solvers.machine import Machine, Value


class PredictedCGState(NamedTuple):
    alpha: Value
    r: Value
    """The residual in units of `scale`."""
    p: Value
    """The last direction in the same unit; 0 before the first step."""
    scale: Value
    """s: the true residual is s·r."""
    inverse_rho: Value | None
    """1/rᵀr for the last residual but in the new unit, where rᵀr was within [1/16, 16]."""
    inverse_length: Value | None
    """pᵀAp/rᵀr, the reciprocal of the last step's length."""


@dataclass(frozen=True)
class PredictedCG(Solver):
    """CG that predicts its curvature, in five layers a step instead of seven, with a second product with K."""

    name = "cg-predicted"

    def init(self, m: Machine) -> PredictedCGState:
        return PredictedCGState(m.zeros(), m.target(), m.zeros(), 1.0, None, None)

    def step(self, m: Machine, s: PredictedCGState, t: int) -> PredictedCGState:
        known = CGBounds(m, "none")
        expected = known.target if t == 1 else known.rho
        rho = m.dot(s.r, s.r)
        c, inverse_unit = m.unit(rho, expected), m.unit(rho, expected, power=1.0)
        most = known.curvature[0]
        size = lambda: most()[1]  # noqa: E731
        predicted = m.bound(inverse_unit * m.dot(s.r, m.matvec(s.r)), size, "rᵀAr ≤ λ_max(A)·rᵀr")
        p = s.r
        if s.inverse_rho is not None and s.inverse_length is not None:
            beta = rho * s.inverse_rho
            p = m.bound(s.r + beta * s.p, *known.unscaled_direction(t))
            less = inverse_unit * beta * (rho * s.inverse_length)
            predicted = predicted - m.bound(less, size, "rᵀAr is larger, since pᵀAp > 0")
        paired = inverse_unit * p
        if t == 1:
            paired = m.bound(paired, lambda: 2 / m.target_norm()[0], "p/ρ is y/‖y‖²")
        Ap = m.matvec(paired)
        curvature = m.bound(m.dot(p, Ap), size, "pᵀAp ≤ rᵀAr")
        near = m.assume(predicted, *known.curvature)
        gamma = rho * m.reciprocal(curvature, near=near)
        inverse_rho, inverse_paired_rho = (
            m.reciprocal(m.assume(m.bound(x * rho, lambda: ROOM, why), *known.rho_hat))
            for x, why in ((c * c, "c is near ρ^(−1/2)"), (inverse_unit, "the factor is near 1/ρ"))
        )
        return PredictedCGState(
            alpha=m.bound(s.alpha + m.bound(gamma * s.scale * paired, *known.alpha), *known.alpha),
            r=m.bound(c * s.r - m.bound(c * gamma * Ap, *known.change), *known.residual),
            p=m.bound(c * p, *known.direction(t)),
            # scale / c, without a second division
            scale=m.bound(s.scale * c * rho * inverse_rho, *known.scale),
            inverse_rho=inverse_rho,
            inverse_length=m.bound(curvature * inverse_paired_rho, size, "pᵀAp ≤ λ_max(A)·rᵀr"),
        )
