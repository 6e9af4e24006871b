"""`Importer`: a format of other software that a model can be read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ridgeformer.registry import Registry
from ridgeformer.tasks import LearnableTask
from ridgeformer.training import Recipe, TrainedModel


@dataclass(frozen=True)
class Importer(ABC):
    """A way to read checkpoints of other software; its options are its fields."""

    name = ""
    summary = ""
    """What the importer reads, in a few words for lists and help."""

    registry: ClassVar[Registry[type[Importer]]] = Registry("importer")

    @abstractmethod
    def load(self, directory: str | Path, trained_on: LearnableTask | Recipe) -> TrainedModel:
        """The model of a checkpoint; one that does not fit is refused.

        What it was trained on is a task, or a recipe, whose task and schedule are kept and whose
        `[model]` becomes that of the checkpoint.
        """
