"""What a study is: a question, a measurement that yields plain numbers, and a page drawn from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from ridgeformer.experiments.finding import Collector, Finding, Number, Page, Progress
from ridgeformer.experiments.jobs import (
    HERE,
    Result,
    Store,
    Where,
    code,
    going_on,
    one_thread,
    run_all,
)
from ridgeformer.experiments.plain import from_plain, to_plain
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.experiments.timing import slowness
from ridgeformer.registry import Registry
from ridgeformer.types import Refusal

Part = Callable[[Collector], None]
"""A measurement that needs no other, and adds its numbers to those of the study."""


class Study(ABC):
    """One question that is answered with numbers and one page."""

    registry: ClassVar[Registry[Study]] = Registry("study")
    name: str
    summary: str
    """One line for the list of studies."""
    prompts: int
    """How many prompts each setting has unless the caller says otherwise."""
    few: int = 8
    """How many it has in a fast run, which shows little."""
    seconds: tuple[float, float] | None = None
    """CPU seconds that it takes, and those of each prompt; measured with the machine of `timing.UNIT`."""

    @abstractmethod
    def measure(self, prompts: int, seed: int, progress: Progress) -> Finding: ...

    @abstractmethod
    def page(self, finding: Finding) -> Page:
        """The page, made from the finding alone."""

    def tasks(self, prompts: int, seed: int) -> Sequence[StudyTask]:
        """What workers may measure beside each other: one task, unless a study says more."""
        return [StudyTask(self.name, prompts, seed)]

    def run_task(self, task: StudyTask) -> Result:
        return {"finding": to_plain(self.measure(task.prompts, task.seed, list))}

    def gather(self, results: Sequence[Result], prompts: int, seed: int) -> Finding:
        """The finding that `measure` returns, from the results of all tasks."""
        (result,) = results
        finding: Finding = from_plain(result["finding"])
        return finding


class StudyInParts(Study):
    """A study whose parts need not know of each other."""

    measures: Mapping[str, str]
    """The meaning of each measure."""

    @abstractmethod
    def parts(self, prompts: int) -> Sequence[Part]:
        """The measurements, in the order of their numbers."""

    @abstractmethod
    def settings(self, prompts: int) -> Mapping[str, Any]:
        """What holds for every number."""

    def measure(self, prompts: int, seed: int, progress: Progress) -> Finding:
        out = Collector(prompts, seed)
        for part in progress(self.parts(prompts)):
            part(out)
        return self.finding(out.numbers, prompts, seed)

    def finding(self, numbers: Iterable[Number], prompts: int, seed: int) -> Finding:
        settings = self.settings(prompts)
        return Finding(self.name, seed, prompts, settings, self.measures, list(numbers))

    def tasks(self, prompts: int, seed: int) -> Sequence[StudyTask]:
        count = len(self.parts(prompts))
        return [StudyTask(self.name, prompts, seed, part) for part in range(count)]

    def run_task(self, task: StudyTask) -> Result:
        out = Collector(task.prompts, task.seed)
        self.parts(task.prompts)[task.part](out)
        return {"numbers": to_plain(out.numbers)}

    def gather(self, results: Sequence[Result], prompts: int, seed: int) -> Finding:
        numbers = (number for result in results for number in from_plain(result["numbers"]))
        return self.finding(numbers, prompts, seed)


@dataclass(frozen=True)
class StudyTask:
    """One part of a registered study."""

    study: str
    prompts: int
    seed: int
    part: int = 0

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def run(self) -> Result:
        return Study.registry.find(self.study).run_task(self)


def run_study(
    study: Study,
    out: str | Path,
    seed: int = 0,
    prompts: int | None = None,
    console: Console | None = None,
    where: Where = HERE,
    store: Store | None = None,
) -> Path:
    """Measures, writes findings.json and the page, prints tables, and returns the page's path.

    With a store, or elsewhere than here, the parts of the study are tasks whose results are kept:
    in `store`, or in the directory `tasks` of `out`.
    """
    prompts = study.prompts if prompts is None else prompts
    if prompts < 2:
        raise Refusal(f"An interval needs at least 2 prompts, got {prompts}.")
    check_seed(seed, below=63)
    run = Run(out, "findings.json", console)
    if study.seconds is not None and where is HERE:
        once, each = study.seconds
        fast = "The fast form takes less and shows less." if prompts > study.few else ""
        run.say_how_long(
            (once + each * prompts) * slowness(), f"{study.name}, {prompts} prompts,", fast
        )
    if where is not HERE and store is None:
        store = Store(Path(out) / "tasks", code())
    with going_on(store):
        if store is None:
            with (
                one_thread()
            ):  # as on workers; threads that share small operations wait for each other
                finding = study.measure(prompts, seed, run.track)
        else:
            tasks = study.registry.registered(study).tasks(prompts, seed)
            finding = study.gather(run_all(tasks, store, where, run.track), prompts, seed)
        page = study.page(finding)
        run.show(page.terminal)
        return run.write(page, finding.to_dict())
