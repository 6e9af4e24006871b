"""What a study is: a question, a measurement that yields plain numbers, and a page drawn from them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table as RichTable

from ridgeformer import __version__
from ridgeformer.experiments.report import Section, Table, check_page, write_page
from ridgeformer.statistics import Estimate
from ridgeformer.types import Refusal

Progress = Callable[[Sequence[Any]], Any]
"""Wraps the cases of a study, and shows how far it is."""


@dataclass(frozen=True)
class Number:
    """One number: what was measured, of which method, where, and how sure it is."""

    measure: str
    method: str
    setting: Mapping[str, float | str]
    mean: float | None
    low: float | None
    high: float | None
    """The ends of a 95 % interval over prompts; the mean itself for what is not statistical."""
    prompts: int
    control: bool = False

    @staticmethod
    def of(
        measure: str,
        method: str,
        setting: Mapping[str, float | str],
        found: Estimate,
        control: bool = False,
    ) -> Number:
        return Number(
            measure, method, setting, found.mean, found.low, found.high, found.prompts, control
        )

    @staticmethod
    def exact(
        measure: str,
        method: str,
        setting: Mapping[str, float | str],
        value: float,
        prompts: int,
        control: bool = False,
    ) -> Number:
        """A number without an interval, such as a worst case or a choice."""
        return Number(measure, method, setting, value, value, value, prompts, control)


@dataclass(frozen=True)
class Findings:
    """All that a study found; its page shows nothing else."""

    study: str
    seed: int
    prompts: int
    settings: Mapping[str, Any]
    """What holds for every number."""
    measures: Mapping[str, str]
    """The meaning of each measure."""
    numbers: Sequence[Number]

    @cached_property
    def by_kind(self) -> dict[tuple[str, str], list[Number]]:
        kinds: dict[tuple[str, str], list[Number]] = {}
        for number in self.numbers:
            kinds.setdefault((number.measure, number.method), []).append(number)
        return kinds

    def get(self, measure: str, method: str, **setting: float | str) -> Number:
        """The one number of that measure and method whose setting agrees with `setting`."""
        among = self.by_kind.get((measure, method), [])
        found = [n for n in among if setting.items() <= n.setting.items()]
        if len(found) != 1:
            raise LookupError(f"{len(found)} numbers are the {measure} of {method} at {setting}.")
        return found[0]

    def write(self, path: Path) -> None:
        values = {"version": __version__, "interval": "95 % bootstrap over prompts"} | asdict(self)
        path.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@dataclass(frozen=True)
class Page:
    title: str
    lead: str
    sections: list[Section]
    foot: str
    terminal: Mapping[str, Table]
    """Tables for the terminal, narrower than those of the page, by title."""


class Study(ABC):
    name: str
    summary: str
    """One line, for the list of studies."""
    prompts: int
    """Prompts per setting, unless told otherwise."""

    @abstractmethod
    def measure(self, prompts: int, seed: int, progress: Progress) -> Findings: ...

    @abstractmethod
    def page(self, findings: Findings) -> Page:
        """The page, from the findings alone."""


def find_study(studies: Mapping[str, Study], name: str) -> Study:
    if name not in studies:
        raise Refusal(f"There is no study {name!r}: choose from {', '.join(studies)}.")
    return studies[name]


def run_study(
    study: Study,
    out: str | Path,
    seed: int = 0,
    prompts: int | None = None,
    console: Console | None = None,
) -> Path:
    """Measures, writes findings.json and the page, prints tables, and returns the page's path."""
    console = console or Console()
    prompts = study.prompts if prompts is None else prompts
    if prompts < 2:
        raise Refusal(f"An interval needs at least 2 prompts, got {prompts}.")
    if not 0 <= seed < 2**63:
        raise Refusal(f"The seed must be at least 0 and below 2^63, got {seed}.")
    path, numbers = Path(out) / "index.html", Path(out) / "findings.json"
    check_page(path)
    check_page(numbers)

    def progress(cases: Sequence[Any]) -> Any:
        return track(cases, "measuring", console=console, transient=True)

    findings = study.measure(prompts, seed, progress)
    findings.write(numbers)
    page = study.page(findings)
    write_page(path, page.title, page.lead, page.sections, page.foot)
    for title, table in page.terminal.items():
        console.print(terminal_table(title, table))
    console.print(f"The page: [bold]{path}[/bold]", soft_wrap=True)
    console.print(f"Its numbers: [bold]{numbers}[/bold]", soft_wrap=True)
    return path


def terminal_table(title: str, table: Table) -> RichTable:
    shown = RichTable(title=title, title_justify="left")
    for column, cell in enumerate(table.header):
        shown.add_column(
            cell, justify="right" if column else "left", no_wrap=not column, overflow="fold"
        )
    for row in table.rows:
        shown.add_row(*row)
    return shown
