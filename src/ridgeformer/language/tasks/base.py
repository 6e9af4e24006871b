"""`Problems`: inputs and answers in words or numbers, as plain data; `LanguageTask`: what draws them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.registry import Registry
from ridgeformer.types import Refusal

FEWEST, MOST = 2, 64
"""How many supports a problem may have."""

Texts = tuple[str, ...]


@dataclass(frozen=True)
class Problems:
    """A batch of in-context problems: k inputs with their targets, and q queries with theirs.

    A target is the index of a class, or a number. Features are the inputs' numbers, where they have any.
    """

    inputs: tuple[Texts, ...]
    targets: Float[Tensor, "batch k"]
    queries: tuple[Texts, ...]
    query_targets: Float[Tensor, "batch q"]
    features: Float[Tensor, "batch k p"] | None = None
    query_features: Float[Tensor, "batch q p"] | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def supports(self) -> int:
        return self.targets.shape[1]

    def __getitem__(self, rows: slice) -> Problems:
        """Some of the problems."""
        features = None if self.features is None else self.features[rows]
        query_features = None if self.query_features is None else self.query_features[rows]
        return Problems(
            self.inputs[rows], self.targets[rows], self.queries[rows], self.query_targets[rows],
            features, query_features,
        )  # fmt: skip


@dataclass(frozen=True)
class LanguageTask(ABC):
    """A distribution over problems; its settings are its fields."""

    supports: int = 16
    queries: int = 6

    name = ""
    summary = ""
    """What is asked, in a few words for lists."""

    registry: ClassVar[Registry[type[LanguageTask]]] = Registry("language task")

    def __post_init__(self) -> None:
        within = FEWEST <= self.supports <= MOST
        self.require(within, f"{FEWEST} to {MOST} supports", "supports")
        self.require(self.queries >= 1, "queries ≥ 1", "queries")

    def require(self, holds: bool, what: str, *names: str) -> None:
        """Refuses the parameters that are named unless the condition holds."""
        if not holds:
            seen = ", ".join(f"{name} {getattr(self, name)}" for name in names)
            raise Refusal(f"The language task {self.name} needs {what}; got {seen}.")

    @abstractmethod
    def draw(self, batch: int, seed: int) -> Problems:
        """Draws problems; the same seed draws the same problems."""

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **vars(self)}


def shuffled(generator: torch.Generator, batch: int, count: int) -> Tensor:
    """A random order of 0 … count − 1 for each problem."""
    return torch.rand(batch, count, generator=generator, dtype=torch.float64).argsort(dim=1)
