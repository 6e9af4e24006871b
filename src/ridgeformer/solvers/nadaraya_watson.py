"""The Nadaraya–Watson smoother: Σ_j k_j(x) y_j / Σ_j k_j(x), what one softmax head computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Machine, Value


class SmootherState(NamedTuple):
    alpha: Value


@dataclass(frozen=True)
class NadarayaWatson(Solver):
    """Shares the kernel with KRR but solves nothing: one step, and every later one leaves it."""

    name = "nadaraya-watson"
    smooths = True

    def init(self, m: Machine) -> SmootherState:
        return SmootherState(m.zeros())

    def step(self, m: Machine, s: SmootherState, t: int) -> SmootherState:
        return SmootherState(m.target())
