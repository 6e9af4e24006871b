"""Gradient descent on the supports of the prompt, with a learned size for every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, mean_squared, training_generator
from ridgeformer.baselines.gradient_descent import FixedSteps, Moments, descend, moments, scalar
from ridgeformer.baselines.learning import learn
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.types import Refusal

POOL = 8192
"""The step sizes are learned on this many training prompts."""

WIDTHS = (0.0, 0.1, 0.5, 0.9)
"""Learning may start at the best steps for each of these half-widths of the spectrum."""


@dataclass(frozen=True, eq=False)
class LearnedSteps(Baseline):
    """w_{t+1} = w_t − η_t ∇L(w_t) on the raw features; the step sizes η_1 … η_T are learned."""

    steps: int = 8
    updates: int = 400
    preconditioners: Float[Tensor, "t p p"] | None = None

    name = "gd-learned"
    label = "Gradient descent, learned steps"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.updates < 0:
            raise Refusal(
                f"{self.name} needs steps ≥ 1 and updates ≥ 0; got {self.steps} and {self.updates}."
            )

    def first(self, width: float, features: int) -> Tensor:
        """Initial steps in units of the best common η: the best T steps for a spectrum within 1 ± width.

        The result does not depend on the order of scalar steps, so that equal ones would stay equal.
        """
        angles = pi * (torch.arange(self.steps, dtype=torch.float64) + 0.5) / self.steps
        return 1 / (1 + width * angles.cos())

    def spread(self, learned: Tensor, features: int) -> Float[Tensor, "t p p"]:
        """The preconditioners P_t that the learned parameters stand for, in the same units."""
        return scalar(learned, features)

    def fit(self, task: LearnableTask, seed: int) -> LearnedSteps:
        generator = training_generator(seed)
        sample = task.sample(POOL, generator)
        prompt, p = sample.prompt, sample.prompt.features
        common = FixedSteps(self.steps).tuned_on(sample[:1024])
        eta, known = common.learned(common.eta), moments(prompt)

        def risk(parameters: list[Tensor], rows: Tensor) -> Tensor:
            part = Moments(known.gram[rows], known.cross[rows])
            w = descend(part, eta * self.spread(parameters[0], p))
            return mean_squared(prompt.phi_query[rows] @ w, sample.targets[rows])

        (best,) = learn(
            [[scale * self.first(width, p)] for width in WIDTHS for scale in (1.0, 0.7)],
            risk,
            pool=POOL,
            updates=self.updates,
            batch=256,
            rate=0.02,
            generator=generator,
        )
        return replace(self, preconditioners=eta * self.spread(best, p))

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        preconditioners = self.learned(self.preconditioners)
        self.check_features(preconditioners.shape[-1], prompt)
        prompt = prompt.to(torch.float64)
        return prompt.phi_query @ descend(moments(prompt), preconditioners)
