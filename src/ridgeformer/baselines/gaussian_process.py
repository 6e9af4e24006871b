"""The posterior mean of a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, typical_distance
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.gaussian_process import Smoothness, covariance, distances
from ridgeformer.tasks.posterior import conditioned

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

    If the task draws its functions from a Gaussian process with one lengthscale and one noise variance,
    the covariance is the task's own, and this is its best predictor. Otherwise all prompts share the
    scales that maximise the likelihood of training prompts; the covariance is then an RBF, or has the
    smoothness of the task's Gaussian process.
    """

    smoothness: Smoothness = "rbf"
    scales: Scales | None = None

    name = "gp"
    label = "GP posterior"

    def fit(self, task: LearnableTask, seed: int) -> GaussianProcessPosterior:
        process = task.gaussian_process()
        own = self if process is None else replace(self, smoothness=process.smoothness)
        if process is None or len(process.settings) > 1:
            return own.most_likely(training_prompts(task, PROMPTS, seed).prompt)
        [(lengthscale, noise_variance)] = process.settings
        return replace(own, scales=Scales(lengthscale, 1.0, noise_variance))

    def most_likely(self, prompt: Prompt) -> GaussianProcessPosterior:
        """Type-II maximum likelihood by L-BFGS over log ℓ, log variance and log(noise/variance)."""
        start = np.log([typical_distance(prompt), float(prompt.y.square().mean()), 0.1])
        reach = np.log([[1e-2, 1e2], [1e-3, 1e4], [1e-7, 1e3]])
        between = distances(prompt.phi, prompt.phi)

        def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
            x = torch.tensor(logs, requires_grad=True)
            length, variance, ratio = x.exp()
            value = -self.log_likelihood(
                prompt.y, between / length, variance, variance * ratio
            ).mean()
            (gradient,) = torch.autograd.grad(value, x)
            return float(value.detach()), gradient.numpy()

        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=start[:, None] + reach)
        length, variance, ratio = (float(v) for v in np.exp(best.x))
        return replace(self, scales=Scales(length, variance, variance * ratio))

    def log_likelihood(
        self,
        y: Float[Tensor, "batch k r"],
        distance: Float[Tensor, "batch k k"],
        variance: Tensor,
        noise_variance: Tensor,
    ) -> Float[Tensor, " batch"]:
        """log N(y; 0, K + noise·I), given distances in units of the lengthscale."""
        system = variance * covariance(self.smoothness, distance)
        evidence = conditioned(system, system, y, noise_variance)[1]
        return evidence - 0.5 * y[0].numel() * log(2 * pi)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        s, prompt = self.learned(self.scales), prompt.to(torch.float64)
        between, across = (
            s.variance * covariance(self.smoothness, distances(x, prompt.phi) / s.lengthscale)
            for x in (prompt.phi, prompt.phi_query)
        )
        return conditioned(between, across, prompt.y, s.noise_variance)[0]
