"""Tasks that differ from the one a model knows in one respect, each with its own best predictor."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.types import Refusal

STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)
SQUARES = tuple(step**2 for step in STEPS)
FACTORS: dict[str, tuple[str, tuple[float, ...]]] = {
    "condition": ("condition number", (0.01, 0.1, 1.0, 10.0, 100.0)),
    "noise": ("noise", STEPS),
    "noise_variance": ("noise", SQUARES),
    "noise_variances": ("noise", SQUARES),
    "lengthscales": ("lengthscale", STEPS),
}
"""What a field of the task is called, and by what it is multiplied."""
INPUTS = "input scale"


@dataclass(frozen=True)
class ScaledInputs(LearnableTask):
    """The same functions with inputs in other units: x is `scale` times the task's, y is the task's."""

    task: LearnableTask = field(kw_only=True)
    scale: float = field(kw_only=True)

    name = "scaled"

    @staticmethod
    def of(task: LearnableTask, scale: float) -> ScaledInputs:
        return ScaledInputs(task.features, task.supports, task.queries, task=task, scale=scale)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.task.exact

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = self.task.observe(batch, points, generator)
        return self.scale * x, y

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """That of the task, once the units are undone."""
        phi, query = prompt.phi.double() / self.scale, prompt.phi_query.double() / self.scale
        return self.task.best(Prompt(phi, prompt.y.double(), query))


def shifts_of(task: LearnableTask) -> dict[str, list[tuple[float, LearnableTask]]]:
    """By what is shifted: its values, rising, and the tasks; the task itself is among them."""
    found: dict[str, list[tuple[float, LearnableTask]]] = {}
    for name in (f.name for f in fields(task) if f.name in FACTORS and getattr(task, f.name)):
        label, factors = FACTORS[name]
        by_value = {}
        for factor in factors:
            value = times(getattr(task, name), factor)
            if name == "condition":
                value = max(1.0, value)
            with suppress(Refusal):  # a value that the task does not allow
                by_value[shown(value)] = replace(task, **{name: value})
        found[label] = sorted(by_value.items(), key=lambda entry: entry[0])
    found[INPUTS] = [(s, task if s == 1 else ScaledInputs.of(task, s)) for s in STEPS]
    return found


def times(value: Any, factor: float) -> Any:
    return tuple(v * factor for v in value) if isinstance(value, tuple) else value * factor


def shown(value: Any) -> float:
    """One number for several: their geometric mean."""
    if not isinstance(value, tuple):
        return float(value)
    return float(torch.tensor(value, dtype=torch.float64).log().mean().exp())
