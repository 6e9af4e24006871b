"""The lasso: least squares with few non-zero weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path
from torch import Tensor

from ridgeformer.baselines.base import Baseline, mean_squared, training_prompts
from ridgeformer.tasks import LearnableTask, Prompt

PROMPTS = 128
GRID = np.logspace(0, -4, 17)
"""α in units of the mean α at which all weights vanish. The largest comes first, for warm starts."""


@dataclass(frozen=True)
class Lasso(Baseline):
    """The w that minimises |y − Φw|²/2k + α|w|₁ on the raw features; α is tuned on training prompts."""

    alpha: float | None = None

    name = "lasso"
    label = "Lasso"

    def fit(self, task: LearnableTask, seed: int) -> Lasso:
        sample = training_prompts(task, PROMPTS, seed)
        prompt = sample.prompt
        largest = (prompt.phi.mT @ prompt.y).abs().amax((1, 2)) / prompt.supports
        alphas = float(largest.mean()) * GRID
        predictions = prompt.phi_query @ weights(prompt, alphas)
        errors = torch.stack([mean_squared(each, sample.targets) for each in predictions])
        return replace(self, alpha=float(alphas[int(errors.argmin())]))

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        prompt = prompt.to(torch.float64)
        return prompt.phi_query @ weights(prompt, np.array([self.learned(self.alpha)]))[0]


def weights(prompt: Prompt, alphas: np.ndarray) -> Float[Tensor, "alphas batch p r"]:
    """Weights for each α by scikit-learn's coordinate descent, one prompt and one output at a time."""
    with warnings.catch_warnings():
        # On nearly collinear inputs it may stop with a gap of 1e-5, which predictions do not show.
        warnings.simplefilter("ignore", ConvergenceWarning)
        solutions = [
            [
                # Given a matrix of outputs, it would solve the multi-task lasso instead.
                lasso_path(np.asfortranarray(x), y, alphas=alphas, tol=1e-8, max_iter=100_000)[1]
                for y in outputs.T
            ]
            for x, outputs in zip(prompt.phi.numpy(), prompt.y.numpy(), strict=True)
        ]
    return torch.from_numpy(np.array(solutions)).permute(3, 0, 2, 1)
