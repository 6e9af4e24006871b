"""What an experiment found: numbers with their settings, a verdict where there is one, figures and tables.

Theorems, studies, evaluations and the demo all return a `Finding`. It is plain data: pages are drawn
from it alone, and it can be written as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import nan
from typing import Any, Literal

import numpy as np
from torch import Tensor

from ridgeformer import __version__
from ridgeformer.statistics import Estimate, estimate

ROUND_OFF = 1e-9
"""How far a value may lie beyond its bound: round-off in bounds that are attained."""

Setting = Mapping[str, float | str]
Progress = Callable[[Sequence[Any]], Iterable[Any]]
"""Wraps the cases of an experiment, and shows how far it is."""


@dataclass(frozen=True)
class Number:
    """One number: what was measured, of which method, where, and how certain it is."""

    measure: str
    method: str
    setting: Setting
    mean: float | None
    low: float | None
    high: float | None
    """The ends of a 95 % interval over prompts; the mean itself for what is not statistical."""
    prompts: int
    control: bool = False

    @property
    def value(self) -> float:
        """The mean, NaN where it is not defined."""
        return nan if self.mean is None else self.mean

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, NaN where it is not defined."""
        return nan if self.low is None else self.low, nan if self.high is None else self.high


@dataclass(frozen=True)
class Line:
    """One curve of a figure, or one colour of its bars; NaN leaves a gap."""

    name: str
    x: Sequence[float] | Sequence[str]
    """Numbers; or the names of cases, which are spaced evenly."""
    y: Sequence[float]
    bound: bool = False
    """A bound is dotted."""
    of: str = ""
    """The line that this one belongs to, whose colour it has."""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    """The ends of an interval at each x."""
    color: str = ""
    """The next of the palette if left out."""
    dash: str = ""
    hidden: bool = False
    """Drawn only when a reader asks for it in the legend."""
    mode: str = ""
    """lines, markers (open circles) or lines+markers; the latter if left out, but for bounds."""
    width: float = 2.5


@dataclass(frozen=True)
class Axes:
    """The titles and scales of both axes; scales follow the values where nothing is said."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = True
    bars: Literal["", "beside", "stacked"] = ""
    """How bars of several colours stand, if bars are drawn."""
    x_ticks: Sequence[float] | None = None
    y_ticks: Sequence[float] | None = None
    y_limits: tuple[float, float] | None = None
    clip: bool = False
    """Whether values beyond the limits are drawn at the edge, rather than not at all."""


@dataclass(frozen=True)
class Panel:
    title: str
    lines: Sequence[Line]
    axes: Axes


@dataclass(frozen=True)
class Figure:
    """A grid of panels; those of a row share their vertical axis, and all share one legend."""

    rows: Sequence[Sequence[Panel]]
    guide: tuple[float, str] | None = None
    """A vertical line at x, with what it marks."""

    @staticmethod
    def of(lines: Sequence[Line], axes: Axes, **options: Any) -> Figure:
        """One panel without a title."""
        return Figure([[Panel("", lines, axes)]], **options)

    @property
    def lines(self) -> list[Line]:
        return [line for row in self.rows for panel in row for line in panel.lines]


@dataclass(frozen=True)
class Part:
    """One line, step or term of a bound, and how near measured values come to it there."""

    name: str
    reached: float
    """The largest measured/bound."""
    asked: float | None = None
    """What it must reach; what the theorem says of all its parts if left out."""


@dataclass(frozen=True)
class Stream:
    """The residual stream of one token: [sublayers, channels], with a name for each channel."""

    title: str
    values: np.ndarray
    channels: Sequence[str]


@dataclass(frozen=True)
class Heatmap:
    """Residual streams over the layers, below each other, with marks at some layers."""

    streams: Sequence[Stream]
    layers: Sequence[float]
    marks: Mapping[float, str]


@dataclass(frozen=True)
class Matrix:
    """Values by row and column; NaN leaves a cell empty."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    marked: Sequence[tuple[int, int]] = ()
    """The row and the column of cells that are marked."""


@dataclass(frozen=True)
class Matrices:
    """Matrices beside each other, whose values are colours on one scale."""

    panels: Sequence[Matrix]
    x: str
    """What columns are."""
    y: str
    """What rows are."""
    scale: str
    """What the values are."""
    limits: tuple[float, float] | None = None
    """Values beyond have the colour of the limit."""
    log: bool = False
    written: bool = False
    """Whether values are written into the cells."""


@dataclass(frozen=True)
class Table:
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    """How many of the first columns are words, which stand to the left."""
    linked: bool = False
    """Whether the first cell of a row leads to the section of that name."""

    def columns(self, chosen: Iterable[int]) -> Table:
        """A narrower table, for instance for a terminal."""
        chosen = list(chosen)
        header, *rows = ([row[c] for c in chosen] for row in (self.header, *self.rows))
        return Table(header, rows, min(self.words, len(chosen)))


@dataclass(frozen=True)
class Paragraph:
    text: str
    kind: Literal["", "statement", "soft", "see"] = ""
    """How it is set."""


Block = Paragraph | Table | Figure | Heatmap | Matrices


@dataclass(frozen=True)
class Section:
    title: str
    content: Sequence[Block]
    anchor: str = ""
    group: str = ""
    """Readers can choose a group, if the sections of a page have any."""
    flag: str = ""
    """A word such as VIOLATED, if the section is one of those that readers may want alone."""

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.content if isinstance(block, Table)]


@dataclass(frozen=True)
class Page:
    """All that a page shows, and the tables that a terminal shows of it."""

    title: str
    lead: str
    sections: Sequence[Section]
    foot: str
    terminal: Mapping[str, Table] = field(default_factory=dict)
    """Tables for the terminal by title, narrower than those of the page."""

    @property
    def groups(self) -> list[str]:
        """The groups of its sections, in their order."""
        return list(dict.fromkeys(s.group for s in self.sections if s.group))


@dataclass(frozen=True)
class Finding:
    """What was asked, under which settings, and what was found."""

    name: str
    seed: int
    prompts: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What holds for every number."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each measure."""
    numbers: Sequence[Number] = ()
    title: str = ""
    group: str = ""
    """What it is about, where a page has several groups."""
    statement: str = ""
    """A theorem's statement with its constants."""
    see: str = ""
    """What the figures show."""
    verdict: str = ""
    """holds, VIOLATED or vacuous, where something is claimed."""
    figures: Sequence[Figure | Heatmap | Matrices] = ()
    tables: Sequence[Table] = ()

    @property
    def holds(self) -> bool:
        """Whether what is claimed holds; true where nothing is claimed."""
        return self.verdict in ("", "holds")

    @cached_property
    def by_kind(self) -> dict[tuple[str, str], list[Number]]:
        """All numbers of a measure and a method."""
        kinds: dict[tuple[str, str], list[Number]] = {}
        for number in self.numbers:
            kinds.setdefault((number.measure, number.method), []).append(number)
        return kinds

    def select(self, measure: str, method: str, **setting: float | str) -> list[Number]:
        """The numbers of that measure and method whose settings agree with `setting`, as measured."""
        among = self.by_kind.get((measure, method), [])
        return [n for n in among if setting.items() <= n.setting.items()]

    def select_all(self, measure: str) -> list[Number]:
        """The numbers of that measure, of all methods."""
        return [number for number in self.numbers if number.measure == measure]

    def get(self, measure: str, method: str, **setting: float | str) -> Number:
        """The one number of that measure and method whose setting agrees with `setting`."""
        numbers = self.select(measure, method, **setting)
        if len(numbers) != 1:
            raise LookupError(f"{len(numbers)} numbers are the {measure} of {method} at {setting}.")
        return numbers[0]

    def to_dict(self) -> dict[str, Any]:
        """The numbers and what they mean, for a JSON file."""
        return {
            "version": __version__,
            "interval": "95 % bootstrap over prompts",
            "study": self.name,
            "seed": self.seed,
            "prompts": self.prompts,
            "settings": self.settings,
            "measures": self.measures,
            "numbers": [asdict(number) for number in self.numbers],
        }

    def section(self, *more: Block) -> Section:
        """Statement, what to see, figures and tables; `more` stands before what to see."""
        said = [Paragraph(self.statement, "statement")] if self.statement else []
        shown = [Paragraph(self.see, "see" if self.statement else "")] if self.see else []
        content = [*said, *more, *shown, *self.figures, *self.tables]
        flag = "" if self.holds else self.verdict
        return Section(self.title, content, self.name, self.group, flag)


@dataclass
class Collector:
    """Gathers the numbers of an experiment, with intervals and settings."""

    prompts: int
    seed: int
    common: Setting = field(default_factory=dict)
    """What holds for all of its numbers."""
    numbers: list[Number] = field(default_factory=list)

    def within(self, **setting: float | str) -> Collector:
        """Gathers into the same numbers, with more in common."""
        return Collector(self.prompts, self.seed, {**self.common, **setting}, self.numbers)

    def add(
        self, measure: str, method: str, values: Tensor | Estimate, control: bool = False, /,
        **setting: float | str,
    ) -> None:  # fmt: skip
        """Adds a mean over prompts, or what was estimated from them."""
        e = estimate(values, self.seed) if isinstance(values, Tensor) else values
        where = {**self.common, **setting}
        self.numbers.append(
            Number(measure, method, where, e.mean, e.low, e.high, e.prompts, control)
        )

    def exact(
        self, measure: str, method: str, value: float, control: bool = False, /,
        **setting: float | str,
    ) -> None:  # fmt: skip
        """Adds a number without an interval, such as a worst case or a choice."""
        self.add(measure, method, Estimate(value, value, value, self.prompts), control, **setting)
