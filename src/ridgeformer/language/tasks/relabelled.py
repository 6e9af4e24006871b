"""`RelabelledTask`: the inputs of a task with two classes, under other labels."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.base import LanguageTask
from ridgeformer.language.tasks.classes import ClassTask
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class RelabelledTask(LanguageTask):
    """What has the inputs of another task, `of`."""

    of: str = "animal-tool"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inputs_of()

    def inputs_of(self) -> ClassTask:
        """The task that draws the inputs."""
        kind = LanguageTask.registry.find(self.of)
        if not issubclass(kind, ClassTask):
            raise Refusal(
                f"The language task {self.name} needs a task with two classes; got {self.of!r}."
            )
        return kind(self.supports, self.queries)

    @property
    def classes(self) -> tuple[str, str]:
        return self.inputs_of().classes
