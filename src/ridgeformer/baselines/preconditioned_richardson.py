"""Richardson iteration in the task's own kernel, with a diagonal preconditioner and one tuned step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ridgeformer.baselines.base import training_prompts
from ridgeformer.baselines.functional_descent import PROMPTS, TunedFunctionalSteps
from ridgeformer.baselines.kernel_system import kernel_system_of
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.learnable import KernelSystem


@dataclass(frozen=True)
class PreconditionedRichardson(TunedFunctionalSteps):
    """α ← α + η P⁻¹(y − Aα), where P holds 1 + Σ_j K_ij, as softmax attention divides by.

    Where kernel values may be negative, P is the diagonal of A instead.
    """

    name = "kernel-richardson"
    label = "Preconditioned Richardson, one tuned step"

    def fit(self, task: LearnableTask, seed: int) -> PreconditionedRichardson:
        system = kernel_system_of(task, seed)
        sample = training_prompts(task, PROMPTS, seed)
        positive = has_positive_values(sample.prompt, system)
        own = replace(self, system=system, precondition="row-sum" if positive else "jacobi")
        return own.with_step(sample)  # type: ignore[return-value]


def has_positive_values(prompt: Prompt, system: KernelSystem) -> bool:
    """Whether no kernel value between supports of these prompts is negative."""
    return bool((system.kernel(prompt.phi, prompt.phi) >= 0).all())
