"""The posterior mean of a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

from ridgeformer.baselines.base import Baseline, distances, training_prompts, typical_distance
from ridgeformer.tasks import GaussianProcess, LearnableTask, Prompt
from ridgeformer.tasks.gaussian_process import Smoothness, covariance

PROMPTS = 128


@dataclass(frozen=True)
class Scales:
    """k(x, x') = variance · covariance(|x − x'|/lengthscale), observed with noise."""

    lengthscale: float
    variance: float
    noise_variance: float


@dataclass(frozen=True)
class GaussianProcessPosterior(Baseline):
    """k(x)ᵀ(K + noise·I)⁻¹y.

    For a gp task with one lengthscale the covariance is the task's own, and this is its best
    predictor. Else the scales maximise the likelihood of training prompts, the same for all of them:
    an RBF, or the task's smoothness if it has one.
    """

    smoothness: Smoothness = "rbf"
    scales: Scales | None = None

    name = "gp"
    label = "GP posterior"

    def fit(self, task: LearnableTask, seed: int) -> GaussianProcessPosterior:
        if not isinstance(task, GaussianProcess):
            return self.most_likely(training_prompts(task, PROMPTS, seed).prompt)
        own = replace(self, smoothness=task.smoothness)
        if len(task.lengthscales) > 1:
            return own.most_likely(training_prompts(task, PROMPTS, seed).prompt)
        return replace(own, scales=Scales(task.lengthscales[0], 1.0, task.noise_variance))

    def most_likely(self, prompt: Prompt) -> GaussianProcessPosterior:
        """Type-II maximum likelihood by L-BFGS over log ℓ, log variance and log(noise/variance)."""
        start = np.log([typical_distance(prompt), float(prompt.y.square().mean()), 0.1])
        reach = np.log([[1e-2, 1e2], [1e-3, 1e4], [1e-7, 1e3]])
        between = distances(prompt.phi, prompt.phi)

        def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
            x = torch.tensor(logs, requires_grad=True)
            length, variance, ratio = x.exp()
            factor = self.factor(between / length, variance, variance * ratio)
            value = -log_likelihood(factor, prompt.y).mean()
            (gradient,) = torch.autograd.grad(value, x)
            return float(value.detach()), gradient.numpy()

        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=start[:, None] + reach)
        length, variance, ratio = (float(v) for v in np.exp(found.x))
        return replace(self, scales=Scales(length, variance, variance * ratio))

    def factor(self, distance: Tensor, variance: Tensor, noise_variance: Tensor) -> Tensor:
        """The Cholesky factor of K + noise·I."""
        noise = noise_variance * torch.eye(distance.shape[-1], dtype=distance.dtype)
        found: Tensor = torch.linalg.cholesky(
            variance * covariance(self.smoothness, distance) + noise
        )
        return found

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        s, prompt = self.learned(self.scales), prompt.to(torch.float64)
        variance, noise = prompt.y.new_tensor([s.variance, s.noise_variance])
        factor = self.factor(distances(prompt.phi, prompt.phi) / s.lengthscale, variance, noise)
        across = distances(prompt.phi_query, prompt.phi) / s.lengthscale
        alpha = torch.cholesky_solve(prompt.y, factor)
        return s.variance * covariance(self.smoothness, across) @ alpha


def log_likelihood(
    factor: Float[Tensor, "batch k k"], y: Float[Tensor, "batch k r"]
) -> Float[Tensor, " batch"]:
    """log N(y; 0, LLᵀ), summed over outputs."""
    white = torch.linalg.solve_triangular(factor, y, upper=False)
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    k, r = y.shape[1:]
    found: Tensor = -0.5 * (
        white.square().sum((1, 2)) + r * log_det + r * k * float(np.log(2 * np.pi))
    )
    return found
