"""What a transformer can be trained on: prompts with the targets of their queries, and the best guess."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks.base import Prompt, Task
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Sample:
    """Prompts, and what was observed at their queries, noise included."""

    prompt: Prompt
    targets: Float[Tensor, "batch q r"]


@dataclass(frozen=True)
class LearnableTask(Task):
    """A prior over functions, with inputs and noise. Its best predictor is part of it."""

    features: int = 2
    supports: int = 32
    queries: int = 32
    outputs = 1

    exact = True
    """Whether `best` is the Bayes predictor; else it is the best that is known."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers = value if isinstance(value, (tuple, list)) else (value,)
            finite = all(isfinite(n) for n in numbers if isinstance(n, float))
            self.require(finite, f"a finite {name}", name)
        for name in ("features", "supports", "queries"):
            self.require(getattr(self, name) >= 1, f"{name} ≥ 1", name)

    def require(self, holds: bool, what: str, *names: str) -> None:
        if not holds:
            seen = ", ".join(f"{name} {getattr(self, name)}" for name in names)
            raise Refusal(f"A {self.name} task needs {what}; got {seen}.")

    @abstractmethod
    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs [batch, points, features] and noisy values [batch, points, 1] of one function each."""

    @abstractmethod
    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The best prediction of the queries' targets from the supports, for squared error."""

    def sample(self, batch: int, generator: torch.Generator, supports: int | None = None) -> Sample:
        """Supports and queries of the same functions; by default as many supports as the task has."""
        k = self.supports if supports is None else supports
        x, y = self.observe(batch, k + self.queries, generator)
        return Sample(Prompt(x[:, :k], y[:, :k], x[:, k:]), y[:, k:])

    def slices(self) -> dict[str, LearnableTask]:
        """Parts of a mixed task by name, whose scores differ; none by default."""
        return {}

    def draw(self, batch: int, seed: int) -> Prompt:
        return self.sample(batch, torch.Generator().manual_seed(seed)).prompt

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}


def generator_of(*numbers: int) -> torch.Generator:
    """A stream of random numbers for a seed of several parts.

    torch reads the last 32 bits of a seed alone, so that sums of parts could meet each other.
    """
    mixed = np.random.SeedSequence(numbers).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator, dtype=torch.float64)
