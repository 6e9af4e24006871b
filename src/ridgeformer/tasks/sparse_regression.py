"""Sparse linear regression, in which few of the weights are not zero."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.learnable import LearnableTask, normal, uniform
from ridgeformer.tasks.posterior import averaged

MOST_SUBSETS = 5000
"""`best` solves a small system for each subset of the features, in every prompt."""


@dataclass(frozen=True)
class SparseRegression(LearnableTask):
    """y = ⟨w, x⟩ + noise, x ~ N(0, I); `nonzero` weights, any of them, are N(0, 1/nonzero), the rest 0."""

    features: int = 8
    nonzero: int = 2
    noise: float = 0.3

    name = "sparse"

    def __post_init__(self) -> None:
        super().__post_init__()
        within = 1 <= self.nonzero <= self.features
        self.require(within, "1 ≤ nonzero ≤ features", "nonzero", "features")
        few = comb(self.features, self.nonzero) <= MOST_SUBSETS
        self.require(few, f"at most {MOST_SUBSETS} subsets of features", "nonzero", "features")
        self.require(self.noise > 0, "noise > 0", "noise")

    @property
    def subsets(self) -> Int[Tensor, "subsets s"]:
        return torch.tensor(list(combinations(range(self.features), self.nonzero)))

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = normal(generator, batch, points, self.features)
        order = uniform(generator, batch, self.features).argsort(1)
        w = normal(generator, batch, self.features) / self.nonzero**0.5
        w = torch.where(order < self.nonzero, w, 0.0)
        return x, x @ w[:, :, None] + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, which averages ridge regressions on every subset of s features by their evidence.

        With A = Φ_SᵀΦ_S + λI, λ = noise²·s and b = Φ_Sᵀy, the log evidence of S is
        ½ bᵀA⁻¹b/noise² − ½ log det A, up to terms that all subsets share.
        """
        phi, y = prompt.phi.double(), prompt.y.double()
        rows, columns = self.subsets[:, :, None], self.subsets[:, None, :]
        system = (phi.mT @ phi)[:, rows, columns]
        system.diagonal(dim1=-2, dim2=-1).add_(self.noise**2 * self.nonzero)
        right = (phi.mT @ y)[:, self.subsets]
        factor = torch.linalg.cholesky(system)
        w = torch.cholesky_solve(right, factor)
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        evidence = 0.5 * ((right * w).sum((2, 3)) / self.noise**2 - log_det)
        everywhere = torch.zeros(*w.shape[:2], self.features, dtype=torch.float64)
        everywhere.scatter_(2, self.subsets.expand(len(w), -1, -1), w[..., 0])
        return prompt.phi_query.double() @ averaged(everywhere, evidence)[:, :, None]
