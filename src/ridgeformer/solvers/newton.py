"""Iterative Newton for the inverse (Schulz 1933): X ← X(2I − AX), α = X y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Machine, Value


class NewtonState(NamedTuple):
    alpha: Value
    inverse: Value
    """X, a dense approximation of A⁻¹."""


@dataclass(frozen=True)
class IterativeNewton(Solver):
    """I − AX squares at each step, so the number of correct digits doubles."""

    name = "newton"

    def init(self, m: Machine) -> NewtonState:
        return NewtonState(m.zeros(), None)

    def step(self, m: Machine, s: NewtonState, t: int) -> NewtonState:
        A = m.dense_system()
        if s.inverse is None:  # the first step is one of Richardson's: X = ηI
            lo, hi = m.interval("none")
            X = (2 / (lo + hi)) * torch.eye(A.shape[-1], dtype=A.dtype).expand_as(A)
        else:
            X = 2 * s.inverse - s.inverse @ (A @ s.inverse)
        return NewtonState(X @ m.target(), X)
