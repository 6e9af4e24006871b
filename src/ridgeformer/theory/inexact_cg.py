"""Conjugate gradients with inexact products and scalars: how far every iterate is from exact CG's.

Everything is measured in the norm of the energy. With r' = S^(−1/2)r and p' = S^(1/2)p, S = P^(−1/2)AP^(−1/2),
a step of CG takes from r' its part along p', and the next direction is S r' without its part along p':
two orthogonal projections. So an error of the residual is never amplified by the step itself, and
one of the direction counts by its angle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

STRAYS, DROP = 1.05, 32.0
"""X, and 32: ‖p̂‖_S ≤ X√b‖r̂‖ at all steps, where the residual falls by less than 32 and where by more; for
exact CG X is 1."""

SOLVED, LEAP = 25.0, 1.75
"""A step that leaves less than δ/25 of the residual may be followed by steps that are held back, in which
‖r̂‖ in the norm of S⁻¹ grows by less than 1 + 1.75√(κa/ℓ) each."""


@dataclass(frozen=True)
class InexactCG:
    """The spectrum of P⁻¹A lies in [a, b]; a product's error is at most ε of ‖·‖_S in the norm of S⁻¹, and
    scalars, updates and the preconditioner are exact up to δ."""

    a: float
    b: float
    product: float
    """ε ≥ ‖S^(−1/2)Ep̂‖/‖p̂‖_S, for which ‖E‖₂/λ_min(A) is enough, whatever P is."""
    unit: float = 0.0
    """δ."""
    least: float | None = None
    """ℓ: the curvature p̂ᵀSp̂ is taken to be at least ℓ/2, in units in which ‖r̂‖ is 1; None for ℓ = a."""

    @property
    def condition(self) -> float:
        return self.b / self.a

    @property
    def leap(self) -> float:
        """G: by how much r̂ may grow in such a step."""
        return 1 + LEAP * sqrt(self.condition * self.a / (self.least or self.a))

    def energy_error(self, steps: int) -> float:
        """‖α̂_t − α_t‖_A/‖α*‖_A for every t ≤ steps, or ∞ where the conditions of the bound fail."""
        curve = self.energy_errors(steps)
        return curve[-1] if len(curve) == steps else inf

    def energy_errors(self, steps: int) -> list[float]:
        """The bound for t = 1, 2, …, as far as its conditions hold, and at most `steps` of them.

        The residual r̂_s is off by at most D in the norm of S⁻¹, the direction by an angle whose sine
        times ‖α* − α_s‖_A is at most Γ, both in units of ‖α*‖_A; ω is the relative error of p̂ᵀr̂ = r̂ᵀr̂,
        and o·b bounds |r̂_{s+1}ᵀr̂_s|/(γ̂_s r̂_sᵀr̂_s), which vanish for exact CG. `held` is H_t, for steps
        that are held back.
        """
        e, d, x = self.product, self.unit, STRAYS
        kappa = self.condition
        q = sqrt(kappa)
        nu = e + (1 + e) * q * d
        if not (nu < 0.25 and d < 0.01):
            return []
        of_gamma = (1 + d) ** 2 / (1 - nu) - 1
        of_beta = (1 + d) ** 2 / (1 - d) - 1
        both = (1 + of_beta) * (1 + of_gamma) - 1
        of_product = 2 * d + d**2 + (1 + of_gamma) * (1 + e) * d * q
        of_update = d * (x / (1 - of_gamma) + 1 + e)
        D, gamma = q * d, q * d * (2 + d)  # r̂₀ is off by δ, and p̂₀ by δ from it
        omega, o = d, 0.0
        solved: list[tuple[float, float]] = []  # by step: D there, and how large r̂ may be by now
        found = []
        for s in range(steps):
            # step s of the recurrence; `omega` and `o` are those of its residual
            grown = (1 + d) * (1 + q * (1 + e) * (1 + of_gamma) / (1 - omega))
            of_direction = d * (1 + (1 + of_beta) * grown * q * x)
            taken = (1 + of_gamma) / (1 - omega)
            lost = e * taken + d * q * (1 + (1 + e) * taken)
            along = (1 + e) * (omega + 2 * d + d**2 + (1 + omega) * q * d) / (1 - d) ** 2
            of_step = lost + taken * along
            before = D
            D = D + gamma + of_step * (1 + D)
            solved = [(then, self.leap * left) for then, left in solved]
            held = max((then + 2 * left for then, left in solved), default=0.0)
            left = q * d / SOLVED * (1 + before)
            solved.append((D + left, left))
            own = of_product * x**2 / (1 - of_gamma) + x * (of_update + (1 + e) * of_direction)
            if s > 0:
                old = (1 + both) * (o + grown * x * of_update)
                old += x * grown * (both * (1 + e) + e + e * x + of_direction)
                own += (1 + of_beta) * old
            o = own
            fresh = both * (1 + e) + e + (1 + both) * of_update + of_direction
            strayed = (1 + both) * o / (1 - omega)
            steady = fresh + DROP * strayed * q
            if max(steady, of_direction + (1 + of_beta) * x / DROP) > x - 1:
                break
            gamma = (
                max(kappa, 2.0) * (1 + fresh) * D
                + q * gamma
                + q * fresh
                + kappa * strayed * (1 + before)
            )
            omega = (1 + of_beta) * (
                omega + of_product + d * q * (x + (1 + e) * (1 + of_gamma))
            ) + of_direction
            if omega > 0.02:
                break
            t, off = s + 1, max(D, held)
            found.append(off + t * lost * (1 + off) + 2 * d * q * t * (t + 2) * taken * (1 + off))
        return found


def inexact_energy_bound(product: float, steps: int) -> float:
    """‖α* − α̂_t‖_A/‖α*‖_A ≤ (1 + te)(1 + e²)^{t/2} with e = ε/(1 − ε), whatever the condition number."""
    error = product / (1 - product)
    return float((1 + steps * error) * (1 + error**2) ** (steps / 2))
