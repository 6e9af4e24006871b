"""k(a, b) = exp(−|a − b|² / 2ℓ²)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, Logits, check_scale
from ridgeformer.kernels.feature_map import FeatureMap


@dataclass(frozen=True)
class Gaussian(Kernel):
    """exp(−|a − b|²/2ℓ²), which softmax attention makes."""

    lengthscale: float = field(default=1.0, metadata={"help": "ℓ of the Gaussian kernel."})

    name = "gaussian"

    def __post_init__(self) -> None:
        check_scale("lengthscale", self.lengthscale, "ℓ")

    def logits(self) -> Logits:
        """−|a − b|²/2ℓ² = ⟨a, b⟩/ℓ² − |a|²/2ℓ² − |b|²/2ℓ²."""
        scale = self.lengthscale**-2
        return Logits(FeatureMap(), scale, scale / 2)

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        # The direct difference: |a|² + |b|² − 2⟨a, b⟩ would cancel for near neighbours.
        distance = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
        return (-0.5 * (distance / self.lengthscale).square()).exp()

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return torch.ones_like(a[..., :1])
