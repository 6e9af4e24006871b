"""Conjugate gradients (Hestenes & Stiefel 1952), in units that keep every scalar near one.

The iterates are the textbook's. What differs is the unit in which residual and direction are
kept: r̂ = r/s and p̂ = p/s, with s renewed each step so that ρ̂ = r̂ᵀP⁻¹r̂ stays near 1. Textbook CG
divides by rᵀr, which falls through thirty orders of magnitude and ends as 0/0; here each divisor
has a bounded range, which a ReLU network can invert, and the recurrence runs on past convergence
without a special case. In the eager machine s is a power of two, so rescaling is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Bounds, Machine, Precondition, Value
from ridgeformer.solvers.richardson import preconditioned

ROOM = 16.0
"""Factor by which ρ̂ may stray from 1 before the step is held back."""


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
    precondition: Precondition = "none"

    name = "cg"

    def init(self, m: Machine) -> CGState:
        inverse = m.inverse_preconditioner(self.precondition)
        r = m.target()
        z = preconditioned(r, inverse)

        def bounds() -> tuple[float, float]:
            # ρ = yᵀP⁻¹y, and P's entries lie in the interval of A.
            (least, most), (lo, hi) = m.target_norm(), m.interval("none")
            return (least**2, most**2) if inverse is None else (least**2 / hi, most**2 / lo)

        return self.rescaled(m, m.zeros(), r, z, m.dot(r, z), 1.0, None, inverse, bounds)

    def step(self, m: Machine, s: CGState, t: int) -> CGState:
        Ap = m.matvec(s.p)
        curvature = m.assume(
            m.dot(s.p, Ap),
            lambda: self.curvature_bounds(m),
            "pᵀAp lies between the extreme eigenvalues of P⁻¹A times ρ",
        )
        gamma = s.rho * m.reciprocal(curvature)
        alpha = m.bound(
            s.alpha + gamma * s.scale * s.p,
            lambda: m.solution_norm(self.precondition),
            "the norm of CG's iterates rises to ‖α*‖ (Steihaug 1983)",
        )
        r = m.bound(
            s.r - gamma * Ap,
            lambda: self.norm_bound(m, s.inverse is not None, 1),
            "‖r‖² grows at most by κ in a step",
        )
        z = preconditioned(r, s.inverse)
        rho = m.dot(r, z)
        beta = rho * s.inverse_rho

        def bounds() -> tuple[float, float]:
            # The A⁻¹-norm of the residual falls, so ρ grows at most by cond(P⁻¹A) in a step.
            lo, hi = m.interval(self.precondition)
            return 0.0, ROOM * hi / lo

        return self.rescaled(m, alpha, r, z, rho, s.scale, beta * s.p, s.inverse, bounds, t)

    def curvature_bounds(self, m: Machine) -> tuple[float, float]:
        lo, hi = m.interval(self.precondition)
        return 0.5 * lo, 4 * hi  # ρ̂ is within 1/2 and 2, and round-off gets some room above

    def norm_bound(self, m: Machine, preconditioned: bool, growth: int) -> float:
        """√(ROOM·growth·κ): ρ̂ is at most ROOM, and a squared norm in the metric of P⁻¹."""
        (lo, hi), (first, last) = m.interval("none"), m.interval(self.precondition)
        metric = max(hi, 1 / lo, 1.0) if preconditioned else 1.0
        return sqrt(ROOM * metric * max(1.0, growth * last / first))

    def rescaled(
        self,
        m: Machine,
        alpha: Value,
        r: Value,
        z: Value,
        rho: Value,
        scale: Value,
        conjugate: Value | None,
        inverse: Value | None,
        bounds: Bounds,
        t: int = 0,
    ) -> CGState:
        """The new direction P⁻¹r + βp, and the whole state in a unit where ρ̂ is near 1."""
        c = m.unit(rho, bounds)
        rho_hat = m.bound(c * c * rho, lambda: ROOM, "c is near ρ^(−1/2)")
        clamped = m.assume(rho_hat, lambda: (1 / ROOM, ROOM), "c is near ρ^(−1/2)")
        inverse_rho = m.reciprocal(clamped)
        return CGState(
            alpha=alpha,
            r=m.bound(c * r, lambda: self.norm_bound(m, inverse is not None, 0), "‖r̂‖² = ρ̂"),
            p=m.bound(
                c * z if conjugate is None else c * z + c * conjugate,
                lambda: self.norm_bound(m, inverse is not None, t + 1),
                "‖p‖² = ρ_t² Σ_j 1/ρ_j, and ρ_t ≤ κ ρ_j",
            ),
            rho=m.hold(rho_hat, 1 / ROOM, 2 / ROOM),
            inverse_rho=inverse_rho,
            scale=m.bound(
                scale * c * rho * inverse_rho,  # scale / c, without a second division
                lambda: self.norm_bound(m, inverse is not None, 1) * m.target_norm()[1],
                "s is ‖r‖ up to a factor ROOM, and ‖r‖² never exceeds κ‖y‖²",
            ),
            inverse=inverse,
        )
