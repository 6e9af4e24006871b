"""k(a, b) = ⟨Ua, Ub⟩."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Range, dot_product_drift
from ridgeformer.kernels.feature_map import FeatureMap
from ridgeformer.kernels.projected import PROJECTION_HELP, Projected


@dataclass(frozen=True, eq=False)
class Linear(Projected):
    """⟨Ua, Ub⟩, which linear attention makes; U is the identity when left out."""

    projection: Float[Tensor, "m p"] | None = field(
        default=None, metadata={"help": PROJECTION_HELP}
    )

    name = "linear"

    def dot_product(self, features: int) -> FeatureMap:
        return FeatureMap(self.projection)

    def factor(self, phi: Float[Tensor, "batch k p"]) -> Float[Tensor, "batch k u"] | None:
        kept = self.project(phi)
        return kept if kept.shape[-1] < phi.shape[-2] else None

    def range(self, max_norm: float) -> Range:
        top = (self.stretch * max_norm) ** 2
        return Range(-top, top, 0.0)

    def lipschitz(self, max_norm: float) -> float:
        """‖U‖²N for norms up to N."""
        return self.stretch**2 * max_norm

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        a, a_moved, b, b_moved = (self.project(x) for x in (a, a_moved, b, b_moved))
        return dot_product_drift(a, a_moved, b, b_moved, torch.ones_like)
