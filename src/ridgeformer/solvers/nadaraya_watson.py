"""The Nadaraya–Watson smoother: Σ_j k_j(x) y_j / Σ_j k_j(x), what one softmax head computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import EagerMachine, Machine, Value
from ridgeformer.types import Refusal


class SmootherState(NamedTuple):
    alpha: Value


@dataclass(frozen=True)
class NadarayaWatson(Solver):
    """Shares the kernel with KRR but solves nothing: every step leaves it as it is."""

    name = "nadaraya-watson"

    def init(self, m: Machine) -> SmootherState:
        if not isinstance(m, EagerMachine):
            raise Refusal(
                "nadaraya-watson divides by a sum of kernel values, which linear attention does "
                "not normalise: it needs softmax attention; the nearest linear-attention solver is gd."
            )
        return SmootherState(m.target())

    def step(self, m: Machine, s: SmootherState, t: int) -> SmootherState:
        return s

    def predict(self, m: EagerMachine, s: SmootherState) -> Value:
        total = m.cross.sum(-1, keepdim=True)
        if (total <= 0).any():
            raise Refusal(
                f"The {m.kernel.name} kernel's weights sum to {float(total.min()):.3g} at some query: "
                "the smoother needs a positive kernel, such as exponential or gaussian."
            )
        return m.predict(s.alpha) / total
