"""What logistic and Poisson regression share: a linear predictor, and samples of its posterior."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.learnable import LearnableTask, normal
from ridgeformer.tasks.posterior import averaged

NODES = 2048
"""The importance sample has this many points; the tests measure its error."""

CHUNK = 32
"""The posterior is sampled for this many prompts at a time, so that their nodes fit into the cache."""

MOST_FEATURES = 8
"""With more features the importance sample would be too thin."""

PILOT = 512
"""Two pilot rounds of this many points find where the importance sample should lie."""

STRIDES = (1.0, 0.5, 0.25, 0.0625, 0.0)
"""Fisher scoring tries these fractions of a full step, and takes the best."""


@lru_cache
def student_nodes(dimension: int, nodes: int, seed: int) -> Float[Tensor, "nodes p"]:
    """A scrambled Sobol sequence, mapped to the multivariate t distribution of 4 degrees of freedom."""
    sobol = torch.quasirandom.SobolEngine(dimension + 2, True, seed)  # type: ignore[no-untyped-call]
    u = sobol.draw(nodes, dtype=torch.float64).clamp(2**-32, 1 - 2**-32)
    chi_squared = -2 * (u[:, -2] * u[:, -1]).log()
    gaussian: Tensor = torch.special.ndtri(u[:, :dimension])
    return gaussian * (4 / chi_squared).sqrt()[:, None]


@dataclass(frozen=True)
class GeneralisedLinear(LearnableTask):
    """y is drawn with a mean that is a function of η = ⟨w, x⟩, x ~ N(0, I), w ~ N(0, scale²·I/d)."""

    features: int = 4
    scale: float = 2.0
    """The standard deviation of η."""

    exact = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.scale > 0, "scale > 0", "scale")
        few = self.features <= MOST_FEATURES
        self.require(few, f"at most {MOST_FEATURES} features", "features")

    @abstractmethod
    def mean(self, eta: Tensor) -> Tensor:
        """E[y | η]."""

    @abstractmethod
    def observed(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        """Draws y with that mean."""

    @abstractmethod
    def log_likelihood(self, eta: Tensor, y: Tensor) -> Tensor:
        """log p(y | η), up to terms that do not depend on η."""

    @abstractmethod
    def score(self, eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The derivative of the log likelihood with respect to η, and the Fisher information of η."""

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = normal(generator, batch, points, self.features)
        w = self.scale / self.features**0.5 * normal(generator, batch, self.features, 1)
        return x, self.observed(self.mean(x @ w), generator)

    def log_posterior(
        self,
        w: Float[Tensor, "batch nodes p"],
        phi: Float[Tensor, "batch k p"],
        y: Float[Tensor, "batch k 1"],
    ) -> Float[Tensor, "batch nodes"]:
        """The log posterior density of weights given the supports, up to a constant."""
        prior = -0.5 * self.features / self.scale**2 * w.square().sum(-1)
        return prior + self.log_likelihood(w @ phi.mT, y.mT).sum(-1)

    def laplace(
        self, phi: Float[Tensor, "batch k p"], y: Float[Tensor, "batch k 1"], steps: int = 12
    ) -> tuple[Float[Tensor, "batch 1 p"], Float[Tensor, "batch p p"]]:
        """The mode of the posterior by Fisher scoring, and the information at the mode."""
        precision = self.features / self.scale**2
        strides = torch.tensor(STRIDES, dtype=torch.float64)[:, None]
        w = phi.new_zeros(len(phi), 1, self.features)
        for step in range(steps + 1):
            slope, weight = self.score(phi @ w.mT, y)
            information = phi.mT @ (weight * phi)
            information.diagonal(dim1=-2, dim2=-1).add_(precision)
            if step == steps:
                break
            gradient = phi.mT @ slope - precision * w.mT
            # A full step may overshoot where the information is small.
            tried = w + strides * torch.linalg.solve(information, gradient).mT
            chosen = self.log_posterior(tried, phi, y).argmax(1)
            w = tried[torch.arange(len(w)), chosen][:, None]
        return w, information

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean of E[y | x], by importance sampling.

        Every call uses the same nodes. Their t distribution has heavier tails than any posterior under
        the Gaussian prior, so that the importance weights are bounded.
        """
        tensors = (prompt.phi.double(), prompt.y.double(), prompt.phi_query.double())
        parts = zip(*(torch.split(t, CHUNK) for t in tensors), strict=True)
        return torch.cat([self.expected(*part) for part in parts])

    def expected(
        self, phi: Tensor, y: Tensor, query: Tensor, nodes: int = NODES, seed: int = 0
    ) -> Float[Tensor, "batch q 1"]:
        """The posterior mean of E[y | x] at the queries of a few prompts."""
        centre, information = self.laplace(phi, y)
        t = student_nodes(self.features, nodes, seed)
        log_density = -0.5 * (4 + self.features) * (t.square().sum(-1) / 4).log1p()
        # Each round of nodes estimates the mean and covariance for the next one, because a posterior that
        # is far from Gaussian, such as that of counts near the largest rate, lies to one side of its mode.
        spread = first = information.inverse()
        for count in (PILOT, PILOT, nodes):
            w = centre + t[:count] @ torch.linalg.cholesky(spread).mT
            log_weight = self.log_posterior(w, phi, y) - log_density[:count]
            centre = averaged(w, log_weight)[:, None]
            apart = w - centre
            share = log_weight.softmax(1)[:, :, None]
            spread = apart.mT @ (share * apart) + 0.01 * first  # so that it is never singular
        return averaged(self.mean(w @ query.mT), log_weight)[:, :, None]
