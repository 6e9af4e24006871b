"""`LearnableTask`: a task that transformers are trained on, since it knows the targets of its queries.

It knows the best prediction of these targets too, which trained models are compared with.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.registry import Registry
from ridgeformer.tasks.base import LARGEST, Prompt, Task, seeded
from ridgeformer.tasks.gaussian_law import GaussianLaw
from ridgeformer.types import Refusal

if TYPE_CHECKING:
    from ridgeformer.tasks.gaussian_process import GaussianProcess


@dataclass(frozen=True)
class Sample:
    """Prompts, and the noisy values that were observed at their queries."""

    prompt: Prompt
    targets: Float[Tensor, "batch q r"]

    def __getitem__(self, rows: slice | Tensor) -> Sample:
        """Some of the prompts, with their targets."""
        return Sample(self.prompt[rows], self.targets[rows])

    def to(self, target: torch.dtype | torch.device | str) -> Sample:
        """Prompts and targets on another device or in another precision."""
        return Sample(self.prompt.to(target), self.targets.to(target))


class KernelSystem(NamedTuple):
    """A kernel and the λ of A = K + λI."""

    kernel: Kernel
    ridge: float


class LearnableTasks(Registry[type["LearnableTask"]]):
    """The registry of learnable tasks; its members are in the registry of all tasks, too."""

    def add(self, member: type[LearnableTask]) -> type[LearnableTask]:
        Task.registry.add(member)
        return super().add(member)


@dataclass(frozen=True)
class LearnableTask(Task):
    """A distribution over functions, their inputs and the noise, together with its best predictor.

    features   p, the number of features
    supports   k, the number of supports of every problem
    queries   q, the number of queries of every problem
    """

    features: int = 2
    supports: int = 32
    queries: int = 32
    outputs = 1

    registry: ClassVar[LearnableTasks] = LearnableTasks("learnable task")
    exact = True
    """Whether `best` is the Bayes predictor; otherwise it is the best predictor that is known."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers = value if isinstance(value, (tuple, list)) else (value,)
            finite = all(isfinite(n) for n in numbers if isinstance(n, float))
            self.require(finite, f"a finite {name}", name)
        for name in ("features", "supports", "queries"):
            value = getattr(self, name)
            self.require(value >= 1, f"{name} ≥ 1", name)
            self.require(value <= LARGEST, f"{name} ≤ {LARGEST:,}", name)

    def require(self, holds: bool, what: str, *names: str) -> None:
        """Refuses the parameters that are named unless the condition holds."""
        if not holds:
            seen = ", ".join(f"{name} {getattr(self, name)}" for name in names)
            raise Refusal(f"A {self.name} task needs {what}; got {seen}.")

    @abstractmethod
    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws a function for each prompt: inputs [batch, points, features], noisy values [batch, points, 1]."""

    @abstractmethod
    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The prediction of the queries' targets from the supports that has the least squared error."""

    @property
    def ridge(self) -> float | None:
        """The λ with which ridge regression on the raw features is the best predictor, if there is one."""
        return None

    def kernel_system(self) -> KernelSystem | None:
        """The kernel and the λ whose ridge regression is the best predictor, if every prompt has the same."""
        laws = self.laws()
        return KernelSystem(laws[0].kernel, laws[0].ridge) if len(laws) == 1 else None

    def gaussian_process(self) -> GaussianProcess | None:
        """The Gaussian process that the functions are drawn from, if they are drawn from one."""
        return None

    def laws(self) -> tuple[GaussianLaw, ...]:
        """The Gaussian laws of targets given inputs, of which each prompt has one; none if they are not
        Gaussian with mean 0."""
        return ()

    def law(self) -> GaussianLaw:
        """The one law of targets given inputs."""
        if len(laws := self.laws()) != 1:
            known = f"{len(laws)} of them" if laws else "no such law"
            raise Refusal(
                f"A task with one centred Gaussian law of targets given inputs is needed; this {self.name} "
                f"task has {known}: choose a linear, polynomial or Gaussian-process task of one setting."
            )
        return laws[0]

    def relabel(self, prompt: Prompt, generator: torch.Generator) -> Prompt:
        """The same inputs with targets that are drawn anew from their law."""
        return self.law().relabel(prompt, generator)

    def sample(self, batch: int, generator: torch.Generator, supports: int | None = None) -> Sample:
        """Draws prompts and their targets; they have as many supports as the task, unless told otherwise."""
        k = self.supports if supports is None else supports
        x, y = self.observe(batch, k + self.queries, generator)
        return Sample(Prompt(x[:, :k], y[:, :k], x[:, k:]), y[:, k:])

    def slices(self) -> dict[str, LearnableTask]:
        """The parts of a mixed task by name, each of which is scored alone; most tasks have none."""
        return {}

    def draw(self, batch: int, seed: int) -> Prompt:
        return self.sample(batch, seeded(batch, seed)).prompt

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}


def generator_of(*numbers: int) -> torch.Generator:
    """A generator of random numbers for a seed of several parts.

    PyTorch reads only the last 32 bits of a seed, so that sums of parts could coincide.
    """
    mixed = np.random.SeedSequence(numbers).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator, dtype=torch.float64)
