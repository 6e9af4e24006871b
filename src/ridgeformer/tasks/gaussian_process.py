"""Gaussian-process regression: a smooth function of a few inputs, whose scales are known or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Gaussian, Kernel
from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.gaussian_law import GaussianLaw
from ridgeformer.tasks.learnable import LearnableTask, normal, uniform
from ridgeformer.tasks.posterior import averaged, conditioned

Smoothness = Literal["rbf", "matern12", "matern32", "matern52"]


def covariance(kind: Smoothness, distance: Tensor) -> Tensor:
    """The covariance of variance 1 at a distance, which is in units of the lengthscale."""
    if kind == "rbf":
        return (-0.5 * distance.square()).exp()
    if kind == "matern12":
        return (-distance).exp()
    if kind == "matern32":
        scaled = 3**0.5 * distance
        return (1 + scaled) * (-scaled).exp()
    scaled = 5**0.5 * distance
    return (1 + scaled + scaled.square() / 3) * (-scaled).exp()


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances, taken from differences, since |a|² + |b|² − 2⟨a, b⟩ cancels for near points."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


@dataclass(frozen=True)
class Covariance(Kernel):
    """The covariance of a Gaussian process as a kernel that solvers run on."""

    smoothness: Smoothness = "rbf"
    lengthscale: float = 1.0

    name = "covariance"

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return covariance(self.smoothness, distances(a, b) / self.lengthscale)

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return torch.ones_like(a[..., :1])


def covariance_kernel(smoothness: Smoothness, lengthscale: float) -> Kernel:
    """The kernel of that covariance; an RBF is the Gaussian kernel, which can be compiled."""
    return Gaussian(lengthscale) if smoothness == "rbf" else Covariance(smoothness, lengthscale)


@dataclass(frozen=True)
class GaussianProcess(LearnableTask):
    """f ~ GP(0, k(|x − x'|/ℓ)), x uniform on [−1, 1]^d, y = f(x) + N(0, noise variance).

    With several `lengthscales` each prompt has one of them, all equally likely. The same holds for
    several `noise_variances`, which take the place of `noise_variance`.
    """

    smoothness: Smoothness = "rbf"
    lengthscales: tuple[float, ...] = (0.5,)
    noise_variance: float = 0.1
    noise_variances: tuple[float, ...] = ()

    name = "gp"

    def __post_init__(self) -> None:
        for name in ("lengthscales", "noise_variances"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        super().__post_init__()
        positive = min(self.lengthscales, default=0) > 0
        self.require(positive, "lengthscales > 0", "lengthscales")
        self.require(self.noise_variance > 0, "noise_variance > 0", "noise_variance")
        positive = min(self.noise_variances, default=1) > 0
        self.require(positive, "noise_variances > 0", "noise_variances")
        known = self.smoothness in get_args(Smoothness)
        self.require(known, f"a smoothness of {', '.join(get_args(Smoothness))}", "smoothness")

    @property
    def settings(self) -> list[tuple[float, float]]:
        """The pairs of lengthscale and noise variance that a prompt may have."""
        return list(product(self.lengthscales, self.noise_variances or (self.noise_variance,)))

    def gaussian_process(self) -> GaussianProcess:
        return self

    def laws(self) -> tuple[GaussianLaw, ...]:
        """One law for each pair of lengthscale and noise variance."""
        return tuple(
            GaussianLaw(covariance_kernel(self.smoothness, scale), noise)
            for scale, noise in self.settings
        )

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = 2 * uniform(generator, batch, points, self.features) - 1
        which = torch.randint(len(self.settings), (batch,), generator=generator)
        scale, noise = torch.tensor(self.settings, dtype=torch.float64)[which].T[:, :, None, None]
        system = covariance(self.smoothness, distances(x, x) / scale)
        system = system + noise * torch.eye(points, dtype=torch.float64)
        return x, torch.linalg.cholesky(system) @ normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean; those of several lengthscales or noise variances are averaged by evidence."""
        phi, y, query = prompt.phi.double(), prompt.y.double(), prompt.phi_query.double()
        between, across = distances(phi, phi), distances(query, phi)
        means, evidence = [], []
        for scale, noise in self.settings:
            mean, log_evidence = conditioned(
                covariance(self.smoothness, between / scale),
                covariance(self.smoothness, across / scale),
                y,
                noise,
            )
            means.append(mean)
            evidence.append(log_evidence)
        return averaged(torch.stack(means, 1), torch.stack(evidence, 1))
