"""Polyak's heavy ball with its optimal coefficients (Polyak 1964)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Interval, Machine, Value


class HeavyBallState(NamedTuple):
    alpha: Value
    previous: Value


@dataclass(frozen=True)
class HeavyBall(Solver):
    """Polyak's heavy ball: gradient descent with momentum, and its optimal coefficients for an interval [lo, hi].

    Every mode inside the interval has the asymptotic rate √β = (√κ−1)/(√κ+1).

    interval   where the eigenvalues lie, if not where the target or the prompts say
    """

    interval: Interval | None = None

    name = "heavy-ball"

    def init(self, m: Machine) -> HeavyBallState:
        return HeavyBallState(m.zeros(), m.zeros())  # no history: the first step has no momentum

    def step(self, m: Machine, s: HeavyBallState, t: int) -> HeavyBallState:
        lo, hi = self.interval or m.interval("none")
        eta = 4 / (sqrt(hi) + sqrt(lo)) ** 2
        beta = ((sqrt(hi) - sqrt(lo)) / (sqrt(hi) + sqrt(lo))) ** 2
        residual = m.target() - m.matvec(s.alpha)
        alpha = m.bound(
            s.alpha + eta * residual + beta * (s.alpha - s.previous),
            lambda: (2 + 2 * t) * m.solution_norm(),
            "a mode's error is at most (1 + 2t)·√β^t of its start",
        )
        return HeavyBallState(alpha, s.alpha)
