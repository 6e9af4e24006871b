"""GD++: gradient descent on features that every step also reshapes (von Oswald et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Interval, Machine, Value
from ridgeformer.types import Refusal


class PlusState(NamedTuple):
    alpha: Value
    features: Value
    """H, which has taken the place of I: the features are Hφ by now."""
    interval: Interval | None
    """What holds the eigenvalues of HAH; None before the first step."""


@dataclass(frozen=True)
class GradientDescentPlus(Solver):
    """α ← α + ηH²(y − Aα) and H ← H − γHAH·H: a step on the features Hφ, which are made rounder.

    An eigenvalue z of HAH becomes z(1 − γz)². With γ = 1/(lo + √(lo·hi) + hi) both ends of [lo, hi]
    get the same value, which is the least, and z = 1/(3γ) gets the largest, 4/(27γ): no other γ leaves
    a smaller ratio. It falls by up to 27/4 a step while it is large, and like (κ − 1)² at the end.
    η = 2/(lo + hi) is the best step for these features.
    """

    interval: Interval | None = None

    name = "gd++"

    def init(self, m: Machine) -> PlusState:
        return PlusState(m.zeros(), m.identity(), None)

    def loop_start(self, m: Machine) -> PlusState:
        raise Refusal(
            "every step has constants of its own, which fit the features that the last one left; leave "
            "`looped=True` out."
        )

    def step(self, m: Machine, s: PlusState, t: int) -> PlusState:
        lo, hi = s.interval or self.interval or m.interval("none")
        eta, gamma = 2 / (lo + hi), 1 / (lo + sqrt(lo * hi) + hi)
        H = s.features
        residual = m.target() - m.matvec(s.alpha)
        alpha = m.bound(
            s.alpha + eta * m.apply(H, residual, key=H),
            lambda: 2 * m.solution_norm(),
            "every factor 1 − ηz of the residual polynomial lies within 1",
        )
        features = m.bound(
            H - gamma * m.product(H, H, key=H),
            lambda: 1.0,
            "every factor 1 − γz lies between 0 and 1",
        )
        return PlusState(alpha, features, (lo * (1 - gamma * lo) ** 2, 4 / (27 * gamma)))
