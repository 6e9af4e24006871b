"""Kernel ridge regression with a Gaussian kernel, whose width and λ are fitted to training prompts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, tuned, typical_distance
from ridgeformer.kernels import Gaussian
from ridgeformer.solvers import krr
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.learnable import KernelSystem

PROMPTS = 256
WIDTHS = np.logspace(-1, 1, 17)
"""Widths in units of the median distance between a query and a support."""
RIDGES = np.logspace(-3, 1, 13)


@dataclass(frozen=True)
class KernelRidge(Baseline):
    """k(x)ᵀ(K + λI)⁻¹y with a Gaussian kernel; all prompts share the width and the λ with the least error.

    Unlike the GP posterior, it takes nothing from the task but training prompts.
    """

    system: KernelSystem | None = None

    name = "kernel-ridge"
    label = "Kernel ridge, fitted width"

    def fit(self, task: LearnableTask, seed: int) -> KernelRidge:
        sample = training_prompts(task, PROMPTS, seed)
        widths = typical_distance(sample.prompt) * WIDTHS
        pairs = (
            KernelSystem(Gaussian(float(width)), float(ridge))
            for width, ridge in product(widths, RIDGES)
        )
        return tuned(self, "system", pairs, sample)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        system = self.learned(self.system)
        return krr(prompt, ridge=system.ridge, kernel=system.kernel)
