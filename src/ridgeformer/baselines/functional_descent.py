"""Functional gradient descent in the task's own kernel, with a fixed step or with one that is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, training_prompts, tuned
from ridgeformer.baselines.kernel_system import kernel_system_of
from ridgeformer.solvers import EagerMachine, Machine, Precondition, solve
from ridgeformer.solvers.richardson import Stationary
from ridgeformer.tasks import LearnableTask, Prompt, Sample
from ridgeformer.tasks.learnable import KernelSystem
from ridgeformer.types import Refusal

PROMPTS = 2048
"""There are many, because a step that is too long for a few prompts can dominate the error."""
GRID = np.logspace(-1, 0.6, 49)
"""Step sizes in units of 1/L, where L is the largest eigenvalue of P⁻¹A that training prompts have."""


@dataclass(frozen=True, eq=False)
class ScheduledSteps(Stationary):
    """Richardson iteration whose steps have the sizes that are given, one for each step."""

    sizes: Sequence[float] | Float[Tensor, " t"]
    precondition: Precondition = "none"

    name = "scheduled-richardson"

    def step_size(self, m: Machine, t: int) -> Any:
        return self.sizes[t - 1]


def descend(
    prompt: Prompt,
    system: KernelSystem,
    sizes: Sequence[float] | Float[Tensor, " t"],
    precondition: Precondition = "none",
) -> Float[Tensor, "batch q r"]:
    """Predictions after the last step of f ← f + Σ_i η_t P⁻¹(y − Aα)_i k(x_i, ·), from f = 0."""
    solver = ScheduledSteps(sizes, precondition)
    found = solve(solver, prompt, steps=len(sizes), ridge=system.ridge, kernel=system.kernel)
    return found.final


def largest_eigenvalue(
    prompt: Prompt, system: KernelSystem, precondition: Precondition = "none"
) -> float:
    """The largest eigenvalue of P⁻¹A that any of the prompts has."""
    machine = EagerMachine(prompt, system.kernel, system.ridge)
    return machine.interval(precondition)[1]


@dataclass(frozen=True)
class FixedFunctionalSteps(Baseline):
    """T steps of gradient descent on |y − f|² + λ|f|² in the task's own kernel.

    The step is 2/(λ + L), where L is the largest eigenvalue of A that training prompts have. It is the
    best common step if nothing but the interval [λ, L] is known.
    """

    steps: int = 8
    eta: float | None = None
    system: KernelSystem | None = None
    precondition: Precondition = "none"

    name = "kernel-gd-fixed"
    label = "Functional gradient descent, fixed step"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise Refusal(f"{self.name} needs at least one step; got {self.steps}.")

    def fit(self, task: LearnableTask, seed: int) -> FixedFunctionalSteps:
        own = self.in_system(kernel_system_of(task, seed))
        return own.with_step(training_prompts(task, PROMPTS, seed))

    def in_system(self, system: KernelSystem) -> FixedFunctionalSteps:
        return replace(self, system=system)

    def with_step(self, sample: Sample) -> FixedFunctionalSteps:
        """The baseline with a step that training prompts determine."""
        system = self.learned(self.system)
        return replace(self, eta=2 / (system.ridge + largest_eigenvalue(sample.prompt, system)))

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        sizes = [self.learned(self.eta)] * self.steps
        system = self.learned(self.system)
        return descend(prompt.to(torch.float64), system, sizes, self.precondition)


@dataclass(frozen=True)
class TunedFunctionalSteps(FixedFunctionalSteps):
    """The same with the common step that has the least error on training prompts, the fixed one among them."""

    name = "kernel-gd"
    label = "Functional gradient descent, one tuned step"

    def with_step(self, sample: Sample) -> TunedFunctionalSteps:
        system = self.learned(self.system)
        top = largest_eigenvalue(sample.prompt, system, self.precondition)
        fixed = 2 / (system.ridge + top)
        return tuned(self, "eta", [fixed, *(float(v) for v in GRID / top)], sample)
