"""Gathers the numbers of a study, with intervals and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from ridgeformer.experiments.studies.base import Number
from ridgeformer.statistics import Estimate, estimate


@dataclass
class Collector:
    prompts: int
    seed: int
    common: Mapping[str, float | str] = field(default_factory=dict)
    """What holds for all of its numbers."""
    numbers: list[Number] = field(default_factory=list)

    def add(
        self, measure: str, method: str, found: Tensor | Estimate, control: bool = False, /,
        **setting: float | str,
    ) -> None:  # fmt: skip
        """A mean over prompts, or what was estimated from them."""
        if isinstance(found, Tensor):
            found = estimate(found, self.seed)
        where = {**self.common, **setting}
        self.numbers.append(Number.of(measure, method, where, found, control))

    def exact(self, measure: str, method: str, value: float, /, **setting: float | str) -> None:
        """A number without an interval."""
        where = {**self.common, **setting}
        self.numbers.append(Number.exact(measure, method, where, value, self.prompts))
