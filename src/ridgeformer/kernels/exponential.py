"""k(a, b) = exp(⟨Ua, Ub⟩ / τ): the kernel of softmax attention before its normalisation."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel
from ridgeformer.types import Refusal


@dataclass(frozen=True, eq=False)
class Exponential(Kernel):
    temperature: float = 1.0
    projection: Float[Tensor, "d p"] | None = None
    """U; the identity when left out."""

    name = "exponential"

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise Refusal(
                f"The temperature must be positive, got {self.temperature}: choose τ > 0."
            )

    def project(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n d"]:
        return a if self.projection is None else a @ self.projection.to(a).mT

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return (self.project(a) @ self.project(b).mT / self.temperature).exp()

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return (self.project(a).square().sum(-1, keepdim=True) / self.temperature).exp()
