"""Gradient descent on the supports of the prompt, with one fixed step size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, tuned
from ridgeformer.solvers import kernel_eigenvalues
from ridgeformer.tasks import LearnableTask, Prompt, Sample
from ridgeformer.types import Refusal

PROMPTS = 4096
"""There are many, because a step that is too long for one prompt in a thousand can dominate the error."""
GRID = np.logspace(-1.5, 0.5, 31)
"""Step sizes in units of 1/λ̄, where λ̄ is the mean λ_max(ΦᵀΦ/k) of training prompts."""


class Moments(NamedTuple):
    """ΦᵀΦ/k and yᵀΦ/k, which are all that gradient descent reads of the supports."""

    gram: Float[Tensor, "batch p p"]
    cross: Float[Tensor, "batch r p"]


def moments(prompt: Prompt) -> Moments:
    k = prompt.supports
    return Moments(prompt.phi.mT @ prompt.phi / k, prompt.y.mT @ prompt.phi / k)


def descend(m: Moments, preconditioners: Float[Tensor, "t p p"]) -> Float[Tensor, "batch p r"]:
    """The last iterate w_T of w_{t+1} = w_t − P_t ∇L(w_t) from w_0 = 0, with L(w) = |y − Φw|²/2k."""
    w = torch.zeros_like(m.cross)  # It has a row for each output.
    for preconditioner in preconditioners:
        w = w - (w @ m.gram - m.cross) @ preconditioner.mT
    return w.mT


def scalar(steps: Float[Tensor, " t"], features: int) -> Float[Tensor, "t p p"]:
    """P_t = η_t I."""
    return steps[:, None, None] * torch.eye(features, dtype=steps.dtype)


@dataclass(frozen=True)
class FixedSteps(Baseline):
    """T steps of gradient descent on |y − Φw|²/2k from w = 0, on the raw features; η is tuned."""

    steps: int = 8
    eta: float | None = None

    name = "gd"
    label = "Gradient descent, one tuned step"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise Refusal(f"Gradient descent needs at least one step; got {self.steps}.")

    def fit(self, task: LearnableTask, seed: int) -> FixedSteps:
        return self.tuned_on(training_prompts(task, PROMPTS, seed))

    def tuned_on(self, sample: Sample) -> FixedSteps:
        longest = kernel_eigenvalues(sample.prompt)[:, -1] / sample.prompt.supports
        return tuned(self, "eta", (float(v) for v in GRID / float(longest.mean())), sample)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        prompt = prompt.to(torch.float64)
        steps = torch.full((self.steps,), self.learned(self.eta), dtype=torch.float64)
        return prompt.phi_query @ descend(moments(prompt), scalar(steps, prompt.features))
