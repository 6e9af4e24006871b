"""k(a, b) = ⟨a, b⟩."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, Range


@dataclass(frozen=True)
class Linear(Kernel):
    name = "linear"

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return a @ b.mT

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return a.square().sum(-1, keepdim=True)

    def range(self, max_norm: float) -> Range:
        return Range(-(max_norm**2), max_norm**2, 0.0)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}
