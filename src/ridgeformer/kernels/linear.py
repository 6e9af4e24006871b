"""k(a, b) = ⟨Ua, Ub⟩."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Range, dot_product_drift
from ridgeformer.kernels.projected import Projected


@dataclass(frozen=True, eq=False)
class Linear(Projected):
    projection: Float[Tensor, "m p"] | None = None

    name = "linear"

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return self.project(a) @ self.project(b).mT

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return self.project(a).square().sum(-1, keepdim=True)

    def range(self, max_norm: float) -> Range:
        top = (self.stretch * max_norm) ** 2
        return Range(-top, top, 0.0)

    def to_dict(self) -> dict[str, Any]:
        projection = None if self.projection is None else self.projection.tolist()
        return {"name": self.name, "projection": projection}

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

    def linear_features(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n m"]:
        return self.project(a)
