"""Gaussian-process regression: a smooth function of a few inputs, with known or drawn scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.learnable import LearnableTask, normal, uniform
from ridgeformer.types import Refusal

Smoothness = Literal["rbf", "matern12", "matern32", "matern52"]


def covariance(kind: Smoothness, distance: Tensor) -> Tensor:
    """Unit-variance covariance at a distance in units of the lengthscale."""
    if kind == "rbf":
        return (-0.5 * distance.square()).exp()
    if kind == "matern12":
        return (-distance).exp()
    if kind == "matern32":
        scaled = 3**0.5 * distance
        return (1 + scaled) * (-scaled).exp()
    scaled = 5**0.5 * distance
    return (1 + scaled + scaled.square() / 3) * (-scaled).exp()


@dataclass(frozen=True)
class GaussianProcess(LearnableTask):
    """f ~ GP(0, k(|x − x'|/ℓ)), x uniform on [−1, 1]^d, y = f(x) + N(0, noise variance).

    With several lengthscales each prompt has one of them, all equally likely.
    """

    smoothness: Smoothness = "rbf"
    lengthscales: tuple[float, ...] = (0.5,)
    noise_variance: float = 0.1

    name = "gp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscales", tuple(self.lengthscales))
        if not self.lengthscales or min(self.lengthscales) <= 0 or self.noise_variance <= 0:
            raise Refusal("A gp task needs lengthscales > 0 and noise_variance > 0.")

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = 2 * uniform(generator, batch, points, self.features) - 1
        which = torch.randint(len(self.lengthscales), (batch,), generator=generator)
        scale = torch.tensor(self.lengthscales, dtype=torch.float64)[which]
        system = self.noisy(torch.cdist(x, x) / scale[:, None, None])
        return x, torch.linalg.cholesky(system) @ normal(generator, batch, points, 1)

    def noisy(self, distance: Tensor) -> Tensor:
        """K + noise variance on the diagonal."""
        system = covariance(self.smoothness, distance)
        system.diagonal(dim1=-2, dim2=-1).add_(self.noise_variance)
        return system

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, for several lengthscales averaged by their evidence."""
        phi, y, query = prompt.phi.double(), prompt.y.double(), prompt.phi_query.double()
        between, across = torch.cdist(phi, phi), torch.cdist(query, phi)
        means, evidence = [], []
        for scale in self.lengthscales:
            factor = torch.linalg.cholesky(self.noisy(between / scale))
            alpha = torch.cholesky_solve(y, factor)
            means.append(covariance(self.smoothness, across / scale) @ alpha)
            half_log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            evidence.append(-0.5 * (y * alpha).sum((1, 2)) - half_log_det)
        weights = torch.stack(evidence).softmax(0)
        return (weights[:, :, None, None] * torch.stack(means)).sum(0)
