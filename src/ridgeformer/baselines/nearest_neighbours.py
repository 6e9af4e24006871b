"""The mean of the k nearest supports."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, tuned
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.gaussian_process import distances
from ridgeformer.types import Refusal

PROMPTS = 256


@dataclass(frozen=True)
class NearestNeighbours(Baseline):
    """The mean target of the k nearest supports; k is tuned. Of two equally near, the earlier is taken."""

    neighbours: int | None = None

    name = "knn"
    label = "k nearest neighbours"

    def fit(self, task: LearnableTask, seed: int) -> NearestNeighbours:
        sample = training_prompts(task, PROMPTS, seed)
        return tuned(self, "neighbours", range(1, task.supports + 1), sample)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        k = self.learned(self.neighbours)
        if not 1 <= k <= prompt.supports:
            raise Refusal(
                f"{k} nearest neighbours need at least one and at most all of the prompt's "
                f"{prompt.supports} supports: choose fewer, or fit to a task of that many supports."
            )
        prompt = prompt.to(torch.float64)
        order = distances(prompt.phi_query, prompt.phi).argsort(dim=-1, stable=True)[..., :k]
        each = torch.arange(len(prompt.y))[:, None, None]
        return prompt.y[each, order].mean(2)
