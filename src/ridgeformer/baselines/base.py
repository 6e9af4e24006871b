"""`Baseline`: a predictor of queries from supports that may learn from training prompts of the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.registry import Registry
from ridgeformer.tasks import LearnableTask, Prompt, Sample, generator_of
from ridgeformer.tasks.gaussian_process import distances
from ridgeformer.types import Refusal

B = TypeVar("B", bound="Baseline")
T = TypeVar("T")


@dataclass(frozen=True)
class Baseline(ABC):
    """A predictor of queries that treats each prompt and each output by itself."""

    name = ""
    label = ""
    """The name that tables show."""

    registry: ClassVar[Registry[type[Baseline]]] = Registry("baseline")

    def fit(self, task: LearnableTask, seed: int) -> Baseline:
        """The baseline with constants that it takes from the task, or that it learns from training prompts.

        Training prompts have the task's number of supports. The same seed gives the same baseline.
        """
        return self

    @abstractmethod
    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """Predictions at the queries, in float64."""

    def learned(self, value: T | None) -> T:
        """A constant that `fit` sets; a baseline that was not fitted is refused."""
        if value is None:
            raise Refusal(f"{self.name} has learned nothing yet: call fit(task, seed) first.")
        return value

    def check_features(self, wanted: int, prompt: Prompt) -> None:
        if prompt.features != wanted:
            raise Refusal(
                f"{self.name} was fitted to {wanted} features; the prompt has {prompt.features}."
            )


TRAINING = 0xBA5E
"""This number is part of the seed of training prompts and initial weights, so that no evaluation shares it."""


def training_generator(seed: int) -> torch.Generator:
    return generator_of(seed, TRAINING)


def training_prompts(task: LearnableTask, prompts: int, seed: int) -> Sample:
    return task.sample(prompts, training_generator(seed))


def tuned(baseline: B, option: str, values: Iterable[Any], sample: Sample) -> B:
    """The baseline with that value of the option which has the least squared error on the sample."""
    candidates = [replace(baseline, **{option: value}) for value in values]
    errors = torch.stack(
        [mean_squared(c.predict(sample.prompt), sample.targets) for c in candidates]
    )
    return candidates[int(errors.nan_to_num(nan=torch.inf).argmin())]


def mean_squared(predicted: Tensor, targets: Tensor) -> Tensor:
    return (predicted - targets).square().mean()


def typical_distance(prompt: Prompt) -> float:
    """The median distance between a query and a support."""
    return float(distances(prompt.phi_query, prompt.phi).median())
