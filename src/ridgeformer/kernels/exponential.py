"""k(a, b) = exp(⟨Ua, Ub⟩ / τ): the kernel of softmax attention before its normalisation."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Logits, check_scale
from ridgeformer.kernels.feature_map import FeatureMap
from ridgeformer.kernels.projected import PROJECTION_HELP, Projected


@dataclass(frozen=True, eq=False)
class Exponential(Projected):
    """exp(⟨Ua, Ub⟩/τ), which softmax attention makes as it is; U is the identity when left out."""

    temperature: float = field(
        default=1.0, metadata={"help": "τ of the exponential kernel exp(⟨Ua, Ub⟩/τ)."}
    )
    projection: Float[Tensor, "m p"] | None = field(
        default=None, metadata={"help": PROJECTION_HELP}
    )

    name = "exponential"

    def __post_init__(self) -> None:
        check_scale("temperature", self.temperature, "τ")

    def logits(self) -> Logits:
        return Logits(FeatureMap(self.projection), 1 / self.temperature)

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return (self.project(a) @ self.project(b).mT / self.temperature).exp()

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return (self.project(a).square().sum(-1, keepdim=True) / self.temperature).exp()
