"""Block CG (O'Leary 1980): all r outputs search one shared Krylov space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ridgeformer.solvers.base import Solver
from ridgeformer.solvers.machine import Machine, Value


class BlockCGState(NamedTuple):
    alpha: Value
    r: Value
    p: Value


@dataclass(frozen=True)
class BlockCG(Solver):
    """Never needs more steps than CG on the worst output; each step solves two r×r systems."""

    name = "block-cg"

    def init(self, m: Machine) -> BlockCGState:
        m.dense_system()  # says why, where matrices between outputs are out of reach
        y = m.target()
        return BlockCGState(m.zeros(), y, orthonormal(y))

    def step(self, m: Machine, s: BlockCGState, t: int) -> BlockCGState:
        # Directions are kept orthonormal, which saves block CG from its well-known breakdown.
        Ap = m.matvec(s.p)
        curvature = s.p.mT @ Ap
        alpha = s.alpha + s.p @ torch.linalg.solve(curvature, s.p.mT @ s.r)
        r = s.r - Ap @ torch.linalg.solve(curvature, s.p.mT @ s.r)
        p = r - s.p @ torch.linalg.solve(curvature, Ap.mT @ r)
        return BlockCGState(alpha, r, orthonormal(p))


def orthonormal(v: torch.Tensor) -> torch.Tensor:
    """An orthonormal basis of the columns' span; of anything when the columns vanish."""
    size = v.abs().amax(dim=(-2, -1), keepdim=True)
    basis: torch.Tensor = torch.linalg.qr(v / torch.where(size > 0, size, 1.0)).Q
    return basis
