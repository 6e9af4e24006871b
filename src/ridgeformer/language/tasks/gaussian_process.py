"""Draws of a Gaussian process on written numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.tasks.numeric import NumericTask
from ridgeformer.tasks.gaussian_process import covariance, distances
from ridgeformer.tasks.learnable import normal

JITTER = 1e-8
"""Added to the diagonal, since the covariance of near points is singular to round-off."""


@dataclass(frozen=True)
class GaussianProcessNumbers(NumericTask):
    """f ~ GP(0, exp(−|x − x'|²/2ℓ²)), moved to the range of the format."""

    lengthscale: float = 0.2
    """ℓ, as a share of the domain."""

    name = "gp-draw"
    summary = "a draw of a Gaussian process"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0.01 <= self.lengthscale <= 10, "a lengthscale from 0.01 to 10", "lengthscale")

    def observe(
        self, x: Float[Tensor, "batch n p"], generator: torch.Generator
    ) -> Float[Tensor, "batch n"]:
        system = covariance("rbf", distances(x, x) / self.lengthscale)
        system = system + JITTER * torch.eye(x.shape[1], dtype=torch.float64)
        white = normal(generator, len(x), x.shape[1], 1)
        drawn: Tensor = torch.linalg.cholesky(system) @ white
        return drawn[..., 0]
