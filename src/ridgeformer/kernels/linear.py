"""k(a, b) = ⟨a, b⟩."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel


@dataclass(frozen=True)
class Linear(Kernel):
    name = "linear"

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return a @ b.mT

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return a.square().sum(-1, keepdim=True)
