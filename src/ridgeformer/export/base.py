"""`Exporter`: a format of other software that a model can be written in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ridgeformer.registry import Registry
from ridgeformer.transformer import Transformer


@dataclass(frozen=True)
class Exporter(ABC):
    """A way to save models for other software; its options are its fields."""

    name = ""
    summary = ""
    """What the exporter writes, in a few words for lists and help."""

    registry: ClassVar[Registry[type[Exporter]]] = Registry("exporter")

    @abstractmethod
    def save(
        self,
        model: Transformer,
        directory: str | Path,
        saved: dict[str, Any] | None = None,
        force: bool = False,
    ) -> None:
        """Writes the model to a directory, whole or not at all; a model that it cannot hold is refused.

        `saved` is the config.json of the saved model, which the exporter keeps beside the weights.
        `force` replaces a checkpoint that is there.
        """
