"""Prompts unlike those that a model was trained on: what these were like, and in what others differ.

What training prompts are like is measured on prompts that are drawn from the recipe's task with a fixed seed, not
remembered from the training, so that it is known of any model that has a recipe.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.tasks import LearnableTask, Prompt, generator_of
from ridgeformer.types import counted

DRAWN = 512
"""So many prompts are drawn, which takes a tenth of a second at most."""

SEED = 0x5EE4
"""This seed draws them."""

BEYOND = 2.0
"""Values may be so many times as large as those that were drawn: the largest of more prompts are larger."""

BELOW = 0.1
"""And so many times as small, where there are enough of them to tell."""

ENOUGH = 32
"""So many values are enough to tell that all of them are too small."""


class OutsideTraining(UserWarning):
    """The prompt is unlike those that the model was trained on, so that nothing is known of its predictions."""


@dataclass(frozen=True)
class Range:
    """The largest values of prompts: the smallest and the largest of these."""

    low: float
    high: float

    @staticmethod
    def of(values: Tensor) -> Range:
        largest = values.abs().flatten(1).amax(1)
        return Range(float(largest.min()), float(largest.max()))

    def too_large(self, name: str, values: Tensor) -> str | None:
        """How values exceed the range by far; None if they do not."""
        largest = float(values.abs().max())
        if largest > BEYOND * self.high:
            return f"|{name}| reaches {largest:,.3g}, and at most {self.high:.3g} in {DRAWN} training prompts"
        return None

    def complaint(self, name: str, values: Tensor) -> str | None:
        """How values leave the range by far; None if they do not."""
        if said := self.too_large(name, values):
            return said
        largest = float(values.abs().max())
        if largest < BELOW * self.low and values.numel() >= ENOUGH:
            return (
                f"|{name}| reaches only {largest:.2g}, and at least {self.low:.2g} in each of {DRAWN} "
                "training prompts"
            )
        return None


@dataclass(frozen=True)
class Seen:
    """What the prompts of a task are like, and with how many supports a model has read them."""

    features: Range
    targets: Range
    fewest: int
    most: int

    @staticmethod
    def of(task: LearnableTask, fewest: int, most: int) -> Seen:
        sample = task.sample(DRAWN, generator_of(SEED))
        prompt = sample.prompt
        features = torch.cat([prompt.phi, prompt.phi_query], dim=1)
        targets = torch.cat([prompt.y, sample.targets], dim=1)
        return Seen(Range.of(features), Range.of(targets), fewest, most)

    def complaints(self, prompt: Prompt) -> list[str]:
        """All in which the prompts differ from these by far, with the figures."""
        features = torch.cat([prompt.phi, prompt.phi_query], dim=1)
        found = [self.features.complaint("φ", features), self.targets.complaint("y", prompt.y)]
        if not self.fewest <= prompt.supports <= self.most:
            trained = (
                f"{self.most:,} of them"
                if self.fewest == self.most
                else f"{self.fewest:,} to {self.most:,} of them"
            )
            found.append(
                f"there are {counted(prompt.supports, 'support')}, and training had {trained}"
            )
        return [complaint for complaint in found if complaint]
