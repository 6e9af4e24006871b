"""`Baseline`: what predicts queries from supports, having seen training prompts of the task at most."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import LearnableTask, Prompt, Sample, generator_of
from ridgeformer.types import Refusal

B = TypeVar("B", bound="Baseline")
T = TypeVar("T")


@dataclass(frozen=True)
class Baseline(ABC):
    """A predictor of queries, each prompt and each output by itself."""

    name = ""
    label = ""
    """For tables."""

    def fit(self, task: LearnableTask, seed: int) -> Baseline:
        """The baseline with what it takes from the task: constants, or what training prompts teach.

        Training prompts have the task's number of supports. The same seed learns the same.
        """
        return self

    @abstractmethod
    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """Predictions at the queries, in float64."""

    def learned(self, value: T | None) -> T:
        if value is None:
            raise Refusal(f"{self.name} has learned nothing yet: call fit(task, seed) first.")
        return value

    def check_features(self, wanted: int, prompt: Prompt) -> None:
        if prompt.features != wanted:
            raise Refusal(
                f"{self.name} was fitted to {wanted} features; the prompt has {prompt.features}."
            )


TRAINING = 0xBA5E
"""Sets the seeds of training prompts and first weights apart from those of any evaluation."""


def training_generator(seed: int) -> torch.Generator:
    return generator_of(seed, TRAINING)


def training_prompts(task: LearnableTask, prompts: int, seed: int) -> Sample:
    return task.sample(prompts, training_generator(seed))


def first_prompts(sample: Sample, prompts: int) -> Sample:
    p = sample.prompt
    part = Prompt(p.phi[:prompts], p.y[:prompts], p.phi_query[:prompts])
    return Sample(part, sample.targets[:prompts])


def tuned(baseline: B, option: str, values: Iterable[Any], sample: Sample) -> B:
    """The baseline with the value of the option that has the least squared error on the sample."""
    candidates = [replace(baseline, **{option: value}) for value in values]
    errors = torch.stack(
        [mean_squared(c.predict(sample.prompt), sample.targets) for c in candidates]
    )
    return candidates[int(errors.nan_to_num(nan=torch.inf).argmin())]


def mean_squared(found: Tensor, targets: Tensor) -> Tensor:
    return (found - targets).square().mean()


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean, by differences: |a|² + |b|² − 2⟨a, b⟩ would cancel for near neighbours."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def typical_distance(prompt: Prompt) -> float:
    """The median distance of a query and a support."""
    return float(distances(prompt.phi_query, prompt.phi).median())
