"""k(a, b) = exp(−|a − b|² / 2ℓ²)."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, Range
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Gaussian(Kernel):
    lengthscale: float = 1.0

    name = "gaussian"

    def __post_init__(self) -> None:
        if not self.lengthscale > 0:
            raise Refusal(
                f"The lengthscale must be positive, got {self.lengthscale}: choose ℓ > 0."
            )

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        # The direct difference: |a|² + |b|² − 2⟨a, b⟩ would cancel for near neighbours.
        distance = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
        return (-0.5 * (distance / self.lengthscale).square()).exp()

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return torch.ones_like(a[..., :1])

    def range(self, max_norm: float) -> Range:
        return Range(exp(-2 * (max_norm / self.lengthscale) ** 2), 1.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "lengthscale": self.lengthscale}

    def lipschitz(self, max_norm: float) -> float:
        """e^{−1/2}/ℓ, the largest slope of exp(−s²/2ℓ²), whatever the norms."""
        return exp(-0.5) / self.lengthscale

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        by_a, by_b = ((x - moved).norm(dim=-1) for x, moved in ((a, a_moved), (b, b_moved)))
        bound: Tensor = self.lipschitz(0.0) * (by_a[:, :, None] + by_b[:, None, :])
        return bound
