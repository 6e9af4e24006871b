"""k(a, b) = exp(⟨Ua, Ub⟩ / τ): the kernel of softmax attention before its normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Range, dot_product_drift
from ridgeformer.kernels.projected import Projected
from ridgeformer.types import Refusal

LARGEST_EXPONENT = 600.0


@dataclass(frozen=True, eq=False)
class Exponential(Projected):
    temperature: float = 1.0
    projection: Float[Tensor, "m p"] | None = None

    name = "exponential"

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise Refusal(
                f"The temperature must be positive, got {self.temperature}: choose τ > 0."
            )

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return (self.project(a) @ self.project(b).mT / self.temperature).exp()

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return (self.project(a).square().sum(-1, keepdim=True) / self.temperature).exp()

    def exponent(self, max_norm: float) -> float:
        """The largest |⟨Ua, Ub⟩| / τ."""
        return (self.stretch * max_norm) ** 2 / self.temperature

    def range(self, max_norm: float) -> Range:
        top = self.exponent(max_norm)
        if top > LARGEST_EXPONENT:
            raise Refusal(
                f"Kernel values would reach exp({top:.4g}), beyond the range of floating point: raise "
                "--temperature or lower --max-norm."
            )
        return Range(exp(-top), exp(top), 1.0)

    def to_dict(self) -> dict[str, Any]:
        projection = None if self.projection is None else self.projection.tolist()
        return {"name": self.name, "temperature": self.temperature, "projection": projection}

    def lipschitz(self, max_norm: float) -> float:
        """(‖U‖²N/τ)·exp(‖U‖²N²/τ) for norms up to N."""
        exponent = self.exponent(max_norm)
        return exponent / max_norm * exp(exponent) if max_norm > 0 else 0.0

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        a, a_moved, b, b_moved = (self.project(x) for x in (a, a_moved, b, b_moved))
        return dot_product_drift(
            a, a_moved, b, b_moved, lambda z: (z / self.temperature).exp() / self.temperature
        )
