"""Linear regression whose noise depends on x in a known way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.learnable import LearnableTask, normal, uniform
from ridgeformer.tasks.posterior import conditioned


@dataclass(frozen=True)
class Heteroskedastic(LearnableTask):
    """y = ⟨w, x⟩ + σ(x)·N(0, 1), w ~ N(0, 3I/d), x uniform on [−1, 1]^d, so that ⟨w, x⟩ has variance 1.

    σ(x) = noise·ratio^(x₁/2): its largest value is `ratio` times its smallest.
    """

    features: int = 4
    noise: float = 0.3
    ratio: float = 10.0

    name = "heteroskedastic"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.noise > 0, "noise > 0", "noise")
        self.require(self.ratio >= 1, "ratio ≥ 1", "ratio")

    def deviation(self, x: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        """σ(x)."""
        return self.noise * self.ratio ** (x[..., :1] / 2)

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = 2 * uniform(generator, batch, points, self.features) - 1
        w = (3 / self.features) ** 0.5 * normal(generator, batch, self.features, 1)
        return x, x @ w + self.deviation(x) * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, which is ridge regression that gives a support the weight 1/σ(x)²."""
        phi, y, query = prompt.phi.double(), prompt.y.double(), prompt.phi_query.double()
        prior = 3 / self.features
        noise = self.deviation(phi)[..., 0].square()
        return conditioned(prior * phi @ phi.mT, prior * query @ phi.mT, y, noise)[0]
