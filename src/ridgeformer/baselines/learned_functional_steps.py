"""Functional gradient descent in the task's own kernel, with a learned size for every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, mean_squared, training_generator
from ridgeformer.baselines.functional_descent import TunedFunctionalSteps, descend
from ridgeformer.baselines.kernel_system import kernel_system_of
from ridgeformer.baselines.learned_steps import WIDTHS
from ridgeformer.baselines.learning import learn
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.learnable import KernelSystem
from ridgeformer.types import Refusal

POOL = 2048
"""The step sizes are learned on this many training prompts."""


@dataclass(frozen=True, eq=False)
class LearnedFunctionalSteps(Baseline):
    """f ← f − η_t ∇(½|y − f|² + ½λ|f|²) in the task's own kernel; the step sizes η_1 … η_T are learned."""

    steps: int = 8
    updates: int = 300
    system: KernelSystem | None = None
    sizes: Float[Tensor, " t"] | None = None

    name = "kernel-gd-learned"
    label = "Functional gradient descent, learned steps"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.updates < 0:
            raise Refusal(
                f"{self.name} needs steps ≥ 1 and updates ≥ 0; got {self.steps} and {self.updates}."
            )

    def fit(self, task: LearnableTask, seed: int) -> LearnedFunctionalSteps:
        system = kernel_system_of(task, seed)
        generator = training_generator(seed)
        sample = task.sample(POOL, generator)
        common = TunedFunctionalSteps(self.steps).in_system(system).with_step(sample[:512])
        eta = common.learned(common.eta)

        def risk(parameters: list[Tensor], rows: Tensor) -> Tensor:
            part = sample[rows]
            return mean_squared(descend(part.prompt, system, eta * parameters[0]), part.targets)

        (best,) = learn(
            [[scale * self.first(width)] for width in WIDTHS for scale in (1.0, 0.7)],
            risk,
            pool=POOL,
            updates=self.updates,
            batch=128,
            rate=0.02,
            generator=generator,
        )
        return replace(self, system=system, sizes=eta * best)

    def first(self, width: float) -> Float[Tensor, " t"]:
        """Initial steps in units of the best common one: the best T steps for a spectrum in 1 ± width."""
        angles = pi * (torch.arange(self.steps, dtype=torch.float64) + 0.5) / self.steps
        return 1 / (1 + width * angles.cos())

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        system, sizes = self.learned(self.system), self.learned(self.sizes)
        return descend(prompt.to(torch.float64), system, sizes)
