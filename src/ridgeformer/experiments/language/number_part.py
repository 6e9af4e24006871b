"""The part of the study about written numbers: what is asked, and what is found of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.jobs import Result, Task
from ridgeformer.experiments.language import number_formats, number_influence, numbers
from ridgeformer.experiments.language.number_influence import TargetChange
from ridgeformer.experiments.language.numbers import NumberPrompt
from ridgeformer.language.tasks import NumericTask

MEASURES = {**numbers.MEASURES, **number_influence.MEASURES, **number_formats.MEASURES}
CHANGED = ("linear", "sinusoid")
"""Of these tasks a study of all tasks changes targets, which costs more than all else; one of named tasks changes those of
every one."""


@dataclass(frozen=True)
class NumberPart:
    """All prompts with numbers, by task and by format."""

    answers: dict[str, list[NumberPrompt]]
    changes: dict[str, tuple[list[TargetChange], list[TargetChange]]]
    """Of the seed that chooses, and of the one that is reported."""
    formats: dict[str, list[NumberPrompt]]

    @staticmethod
    def of(
        directory: str, model: str, tasks: Sequence[NumericTask], prompts: int, seed: int, named: bool
    ) -> NumberPart:  # fmt: skip
        """What is asked about the tasks; `named` says that the user named them."""
        return NumberPart(
            {
                t.name: numbers.number_prompts_of(directory, model, t, prompts, seed + 1)
                for t in tasks
            },
            {
                t.name: (
                    number_influence.changes_of(directory, model, t, prompts, seed),
                    number_influence.changes_of(directory, model, t, prompts, seed + 1),
                )
                for t in tasks
                if named or t.name in CHANGED
            },
            next(
                (
                    number_formats.format_prompts_of(directory, model, t, prompts, seed + 1)
                    for t in tasks
                    if t.name == number_formats.TASK
                ),
                {},
            ),
        )

    @property
    def jobs(self) -> list[Task]:
        """Every prompt once; a format may ask the same as a task does."""
        every: list[Task] = [
            *chain(*self.answers.values()),
            *chain(*chain(*self.changes.values())),
            *chain(*self.formats.values()),
        ]
        return list(dict.fromkeys(every))

    def score(self, results: Mapping[Task, Result], out: Collector) -> dict[str, Any]:
        """Adds all numbers, and returns what was fixed and said, as plain data."""
        if not self.answers:
            return {"numbers": []}

        def of(jobs: Sequence[Task]) -> list[Result]:
            return [results[job] for job in jobs]

        fixed = {name: numbers.score(own, of(own), out) for name, own in self.answers.items()}
        found = {}
        for name, both in self.changes.items():
            first, second = (number_influence.gathered(part, of(part)) for part in both)
            found[name] = number_influence.tell(name, first, second, out)
        written = number_formats.score(
            self.formats, {name: of(own) for name, own in self.formats.items()}, out
        )
        directory = next(iter(self.answers.values()))[0].directory
        left_out = {name: why for name, why in number_formats.unwritten(directory).items() if why}
        return {
            "numbers": list(self.answers),
            "supports of numbers": list(numbers.SIZES),
            "supports that are followed": list(numbers.FOLLOWED),
            "choices of numbers": fixed,
            "changed targets": number_influence.settings_of(found) if found else {"tasks": []},
            "formats": {
                "task": number_formats.TASK,
                "supports": number_formats.SUPPORTS,
                "prompts": len(next(iter(self.formats.values()), [])),
                "written": written,
                "left out": left_out,
            },
        }


def verdicts(settings: Mapping[str, Any]) -> list[str]:
    """The sentence about changed targets, if any were."""
    changed = settings.get("changed targets", {"tasks": []})
    return [changed["verdict"]] if changed["tasks"] else []
