"""Ridge regression on the given features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, tuned
from ridgeformer.solvers import kernel_eigenvalues, krr
from ridgeformer.tasks import LearnableTask, Prompt

PROMPTS = 256
GRID = np.logspace(-5, 1, 25)
"""λ in units of the mean λ_max(K) of training prompts."""


@dataclass(frozen=True)
class Ridge(Baseline):
    """w = (ΦᵀΦ + λI)⁻¹Φᵀy on the raw features, with the task's own λ (`task.ridge`) or a tuned one."""

    ridge: float | None = None

    name = "ridge"
    label = "Ridge regression"

    def fit(self, task: LearnableTask, seed: int) -> Ridge:
        if task.ridge is not None:
            return replace(self, ridge=task.ridge)
        sample = training_prompts(task, PROMPTS, seed)
        scale = float(kernel_eigenvalues(sample.prompt)[:, -1].mean())
        return tuned(self, "ridge", (float(v) for v in scale * GRID), sample)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return krr(prompt, ridge=self.learned(self.ridge))
