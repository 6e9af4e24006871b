"""Conjugate gradients (Hestenes & Stiefel 1952), in units that keep every scalar near one.

The iterates are the textbook's. What differs is the unit in which residual and direction are
kept: r̂ = r/s and p̂ = p/s, with s renewed each step so that ρ̂ = r̂ᵀP⁻¹r̂ stays near 1. Textbook CG
divides by rᵀr, which falls through thirty orders of magnitude and ends as 0/0; here each divisor
has a bounded range, which a ReLU network can invert, and the recurrence runs on past convergence
without a special case. In the eager machine s is a power of two, so rescaling is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.cg_bounds import ROOM, CGBounds
from ridgeformer.solvers.machine import Bounds, Machine, Precondition, Value
from ridgeformer.solvers.richardson import preconditioned


class CGState(NamedTuple):
    alpha: Value
    r: Value
    """r̂, the residual in units of `scale`."""
    p: Value
    """p̂, the direction in units of `scale`."""
    rho: Value
    """ρ̂ = r̂ᵀP⁻¹r̂; 0 holds α when nothing is left, until rescaling has caught up."""
    inverse_rho: Value
    """1/ρ̂, with ρ̂ within [1/16, 16]."""
    scale: Value
    """s: the true residual is s·r̂."""
    inverse: Value | None
    """The diagonal of P⁻¹; None when P = I."""


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    """Conjugate gradients, which are optimal among all methods of as many products with K.

    Preconditioners are none, the diagonal (`jacobi`), and row sums (`row-sum`).
    """

    precondition: Precondition = "none"

    name = "cg"
    preconditioners = ("none", "jacobi", "row-sum")

    def init(self, m: Machine) -> CGState:
        inverse = m.inverse_preconditioner(self.precondition)
        r = m.target()
        z = preconditioned(r, inverse)
        rho = m.dot(r, z)
        expected = CGBounds(m, self.precondition).target
        return self.rescaled(m, 0, m.zeros(), r, z, rho, 1.0, inverse, expected)

    def step(self, m: Machine, s: CGState, t: int) -> CGState:
        known = CGBounds(m, self.precondition)
        Ap = m.matvec(s.p)
        curvature = m.assume(m.dot(s.p, Ap), *known.curvature)
        gamma = s.rho * m.reciprocal(curvature)
        alpha = m.bound(s.alpha + gamma * s.scale * s.p, *known.alpha)
        r = m.bound(s.r - gamma * Ap, *known.residual)
        z = preconditioned(r, s.inverse)
        rho = m.dot(r, z)
        beta = rho * s.inverse_rho
        p = z + beta * s.p
        return self.rescaled(m, t, alpha, r, p, rho, s.scale, s.inverse, known.rho)

    def rescaled(
        self,
        m: Machine,
        t: int,
        alpha: Value,
        r: Value,
        p: Value,
        rho: Value,
        scale: Value,
        inverse: Value | None,
        expected: Bounds,
    ) -> CGState:
        """The same state in a new unit, in which ρ̂ is near 1."""
        known = CGBounds(m, self.precondition)
        c = m.unit(rho, expected)
        rho_hat = m.bound(c * c * rho, lambda: ROOM, "c is near ρ^(−1/2)")
        inverse_rho = m.reciprocal(m.assume(rho_hat, *known.rho_hat))
        return CGState(
            alpha=alpha,
            r=m.bound(c * r, *known.unit_residual),
            p=m.bound(c * p, *known.direction(t)),
            rho=m.hold(rho_hat, 1 / ROOM, 2 / ROOM),
            inverse_rho=inverse_rho,
            # scale / c, without a second division
            scale=m.bound(scale * c * rho * inverse_rho, *known.scale),
            inverse=inverse,
        )
