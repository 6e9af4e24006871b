"""Logistic regression: targets 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ridgeformer.tasks.generalised_linear import GeneralisedLinear


@dataclass(frozen=True)
class LogisticRegression(GeneralisedLinear):
    """y is 1 with probability 1/(1 + e^(−η)), else 0; η = ⟨w, x⟩ with w ~ N(0, scale²·I/d)."""

    scale: float = 3.0

    name = "logistic"

    def mean(self, eta: Tensor) -> Tensor:
        return eta.sigmoid()

    def observed(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(mean, generator=generator)

    def log_likelihood(self, eta: Tensor, y: Tensor) -> Tensor:
        return y * eta - softplus(eta)

    def score(self, eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        mean = eta.sigmoid()
        return y - mean, mean * (1 - mean)
