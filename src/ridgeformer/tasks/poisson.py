"""Poisson regression: targets are counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ridgeformer.tasks.generalised_linear import GeneralisedLinear


@dataclass(frozen=True)
class PoissonRegression(GeneralisedLinear):
    """y is a Poisson count with rate `max_rate`/(1 + e^(−η)); η = ⟨w, x⟩ with w ~ N(0, scale²·I/d)."""

    max_rate: float = 5.0

    name = "poisson"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.max_rate > 0, "max_rate > 0", "max_rate")

    def mean(self, eta: Tensor) -> Tensor:
        return self.max_rate * eta.sigmoid()

    def observed(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        return torch.poisson(mean, generator=generator)

    def log_likelihood(self, eta: Tensor, y: Tensor) -> Tensor:
        return y * logsigmoid(eta) - self.mean(eta)

    def score(self, eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        mean, off = self.mean(eta), (-eta).sigmoid()
        return (y - mean) * off, mean * off.square()
