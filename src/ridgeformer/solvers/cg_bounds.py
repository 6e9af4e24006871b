"""What is known of CG's quantities before any prompt is seen, each bound with its reason.

In the eager machine these cost nothing. The compiler needs them: a ReLU network can invert a number
only over a range, and must know how large the values in its stream can become.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from ridgeformer.solvers.machine import Bounds, Machine, Precondition

ROOM = 16.0
"""Factor by which ρ̂ = r̂ᵀP⁻¹r̂ may stray from 1 before a step is held back."""

Norm = tuple[Callable[[], float], str]
Range = tuple[Bounds, str]


@dataclass(frozen=True)
class CGBounds:
    m: Machine
    precondition: Precondition

    @property
    def target(self) -> Bounds:
        """ρ = yᵀP⁻¹y."""

        def bounds() -> tuple[float, float]:
            (least, most), (lo, hi) = self.m.target_norm(), self.scaling
            return least**2 / hi, most**2 / lo

        return bounds

    @property
    def rho(self) -> Bounds:
        """The A⁻¹-norm of the residual falls, so that ρ grows at most by cond(P⁻¹A) in a step."""
        return lambda: (0.0, ROOM * self.condition)

    @property
    def rho_hat(self) -> Range:
        return lambda: (1 / ROOM, ROOM), "c is near ρ^(−1/2)"

    @property
    def curvature(self) -> Range:
        def bounds() -> tuple[float, float]:
            lo, hi = self.m.interval(self.precondition)
            return 0.5 * lo, 4 * hi  # ρ̂ is within 1/2 and 2, and round-off gets some room above

        return bounds, "pᵀAp lies between the extreme eigenvalues of P⁻¹A times ρ"

    @property
    def alpha(self) -> Norm:
        norm = "the P-norm of CG's iterates rises to that of α* (Steihaug 1983)"
        return lambda: self.m.solution_norm() * sqrt(self.scaling[1] / self.scaling[0]), norm

    @property
    def residual(self) -> Norm:
        return lambda: self.norm(growth=1), "‖r‖² grows at most by κ in a step"

    @property
    def change(self) -> Norm:
        """Of the residual in a step."""
        return lambda: 2 * self.norm(growth=1), "it is the difference of two residuals"

    @property
    def unit_residual(self) -> Norm:
        return lambda: self.norm(growth=0), "‖r̂‖² = ρ̂"

    def direction(self, t: int) -> Norm:
        return lambda: self.norm(growth=t + 1), "‖p‖² = ρ_t² Σ_j 1/ρ_j, and ρ_t ≤ κ ρ_j"

    def unscaled_direction(self, t: int) -> Norm:
        """Before the unit is renewed, in which the last ρ̂ is near 1."""
        norm, why = self.direction(t)
        return lambda: sqrt(self.condition) * norm(), why

    @property
    def scale(self) -> Norm:
        why = "s is ‖r‖ up to a factor ROOM, and ‖r‖² never exceeds κ‖y‖²"
        return lambda: self.norm(growth=1) * self.m.target_norm()[1], why

    @property
    def scaling(self) -> tuple[float, float]:
        """The range of the entries of P."""
        return self.m.preconditioner_range(self.precondition)

    @property
    def condition(self) -> float:
        lo, hi = self.m.interval(self.precondition)
        return hi / lo

    def norm(self, growth: int) -> float:
        """√(ROOM·growth·κ): ρ̂ is at most ROOM, and a squared norm in the metric of P⁻¹."""
        lo, hi = self.scaling
        metric = max(hi, 1 / lo, 1.0)
        return sqrt(ROOM * metric * max(1.0, growth * self.condition))
