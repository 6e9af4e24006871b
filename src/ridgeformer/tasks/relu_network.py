"""Regression on functions that are random networks with one hidden ReLU layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.learnable import LearnableTask, normal
from ridgeformer.tasks.posterior import conditioned


def arc_cosine(
    a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
) -> Float[Tensor, "batch n m"]:
    """2·E[relu⟨w, a⟩ relu⟨w, b⟩] for w ~ N(0, I): |a||b|(sin θ + (π − θ) cos θ)/π, θ their angle."""
    lengths = a.norm(dim=-1)[:, :, None] * b.norm(dim=-1)[:, None, :]
    cosine = (a @ b.mT / lengths).clamp(-1, 1)
    sine = (1 - cosine.square()).sqrt()
    kernel: Tensor = lengths * (sine + (pi - cosine.acos()) * cosine) / pi
    return kernel


@dataclass(frozen=True)
class ReLUNetwork(LearnableTask):
    """y = √(2/H) Σ_h a_h relu⟨w_h, z⟩ + noise, z = (x, 1)/√(d + 1), x, w_h ~ N(0, I), a_h ~ N(0, 1).

    At every width H the covariance of two values is the arc-cosine kernel of z and z'.
    """

    features: int = 4
    width: int = 32
    noise: float = 0.1

    name = "relu-network"
    exact = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.width >= 1, "width ≥ 1", "width")
        self.require(self.noise > 0, "noise > 0", "noise")

    def lifted(self, x: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n z"]:
        """z, whose mean squared length is 1."""
        return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1) / sqrt(self.features + 1)

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = normal(generator, batch, points, self.features)
        inner = normal(generator, batch, self.features + 1, self.width)
        outer = (2 / self.width) ** 0.5 * normal(generator, batch, self.width, 1)
        f = (self.lifted(x) @ inner).relu() @ outer
        return x, f + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean of the network of infinite width, which is a Gaussian process.

        At a finite width it is the best of all predictors that are linear in the supports' targets,
        because their errors depend on the covariance alone; a nonlinear predictor may do better.
        """
        z, y = self.lifted(prompt.phi.double()), prompt.y.double()
        query = self.lifted(prompt.phi_query.double())
        return conditioned(arc_cosine(z, z), arc_cosine(query, z), y, self.noise**2)[0]
