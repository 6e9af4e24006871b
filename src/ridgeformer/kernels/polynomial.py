"""k(a, b) = (⟨a, b⟩ + c)^d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, Range, dot_product_drift
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

    def slope(self, largest: Tensor) -> Tensor:
        """The largest |h'(z)| for |z| ≤ largest, h(z) = (z + c)^d."""
        return self.degree * (largest + self.offset) ** (self.degree - 1)

    def lipschitz(self, max_norm: float) -> float:
        """d·N·(N² + c)^{d−1} for norms up to N."""
        return max_norm * self.degree * (max_norm**2 + self.offset) ** (self.degree - 1)

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        return dot_product_drift(a, a_moved, b, b_moved, self.slope)
