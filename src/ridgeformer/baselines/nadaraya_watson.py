"""The Nadaraya–Watson smoother with a Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, tuned, typical_distance
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.gaussian_process import distances

PROMPTS = 256
GRID = np.logspace(-2, 1, 31)
"""Bandwidths in units of the median distance between a query and a support."""


@dataclass(frozen=True)
class Smoother(Baseline):
    """Σ_j k_j(x) y_j / Σ_j k_j(x), where k is Gaussian with a tuned bandwidth."""

    bandwidth: float | None = None

    name = "nadaraya-watson"
    label = "Nadaraya–Watson"

    def fit(self, task: LearnableTask, seed: int) -> Smoother:
        sample = training_prompts(task, PROMPTS, seed)
        widths = typical_distance(sample.prompt) * GRID
        return tuned(self, "bandwidth", (float(v) for v in widths), sample)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        width, prompt = self.learned(self.bandwidth), prompt.to(torch.float64)
        # A sum of kernel values, by which the solver of this name divides, underflows far from all
        # supports, where the nearest one should decide; a softmax of the exponents does not.
        exponents = -0.5 * (distances(prompt.phi_query, prompt.phi) / width).square()
        return exponents.softmax(-1) @ prompt.y
