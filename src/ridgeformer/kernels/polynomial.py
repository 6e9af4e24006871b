"""k(a, b) = (⟨a, b⟩ + c)^d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, Range
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Polynomial(Kernel):
    degree: int = 2
    offset: float = 1.0

    name = "polynomial"

    def __post_init__(self) -> None:
        if self.degree < 1 or self.offset < 0:
            raise Refusal(
                "A polynomial kernel is positive semi-definite only for degree ≥ 1 and offset ≥ 0, "
                f"got degree {self.degree} and offset {self.offset}."
            )

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return (a @ b.mT + self.offset) ** self.degree

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return (a.square().sum(-1, keepdim=True) + self.offset) ** self.degree

    def range(self, max_norm: float) -> Range:
        top = (max_norm**2 + self.offset) ** self.degree
        return Range(-top, top, self.offset**self.degree)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "degree": self.degree, "offset": self.offset}
