"""What is verified: theorems with explicit constants, each measured as measured/bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
from markupsafe import Markup
from torch import Tensor

from ridgeformer.experiments.finding import (
    ROUND_OFF,
    Axes,
    Collector,
    Figure,
    Finding,
    Line,
    Part,
    Table,
)
from ridgeformer.experiments.theorems.ratios import SIDES, Values, each_side, ratios
from ridgeformer.registry import Registry

RATES, ERRORS = "How fast solvers converge", "What errors of products and round-off cost"
COMPILED, MECHANISM = "Compiled models are their solvers", "What heads and streams do"
WIDTH, SIZES = "Width, rank and drift of features", "Sizes of models"
SOFTMAX, FAILURES = "Softmax attention", "Where models fail"
OWN = "Your own"

Steps = np.ndarray | Tensor
"""Values of every step, the steps first."""

EQUAL = 1e-8
"""How far measured/predicted may be from 1 where the theorem is an equality."""

LEAST = 1e-17
"""What is drawn for smaller values on a logarithmic axis, which cannot show 0."""

DOMINATES = 0.9
"""The part of a bound that one of its terms must be, so that the case says something about this term.

A term that is ten times too large is then noticed wherever a fifth of the bound must be reached, also if the
error makes it the largest where another one was.
"""

MEASURES = {
    "cases": "how many pairs of a measured value and its bound were compared",
    "worst": "the largest measured/bound of all cases",
    "median": "the median measured/bound of all cases",
    "must reach": "the least measured/bound that each part must reach, unless it says so itself",
    "loosest": "the largest measured/bound of the line, step or term that comes nearest to what it must reach",
}
REACHED, ASKED = "reached", "asked"
PARTS = {
    REACHED: "the largest measured/bound of one line, step or term",
    ASKED: "what this line, step or term must reach",
}


@dataclass(frozen=True)
class Outcome:
    """What was measured for one theorem."""

    settings: str
    ratios: np.ndarray
    """measured/bound of every case, flat; finite."""
    lines: Sequence[Line]
    axes: Axes
    tables: Sequence[Table] = ()
    parts: Sequence[Part] = ()
    """Lines, steps and terms that are judged one by one; if none is named, all cases together."""

    @property
    def worst(self) -> float:
        return float(self.ratios.max())

    @property
    def median(self) -> float:
        return float(np.median(self.ratios))


class Theorem(ABC):
    """A statement and its measurement. A violated bound is a finding about the statement."""

    registry: ClassVar[Registry[Theorem]] = Registry("theorem")
    name: str
    title: str
    group: str = OWN
    """What it is about, under which the page lists it."""
    states: tuple[str, ...] = ()
    """The names of the statements that are measured, each a file in `statements/`."""
    measured: str = ""
    """What is counted as measured, and on what, where the statement does not say so."""
    see: str
    """One sentence that says what the figure shows."""
    attained: float = 0.25
    """The least measured/bound that each line, step and term must reach, or the bound would be vacuous.

    A part that cannot says so itself, where it is measured. Above 0.1 nothing that is ten times too large
    passes, however tight it was.
    """
    equality: bool = False
    """Whether every case must reach it, up to EQUAL."""

    @property
    def statement(self) -> str:
        """The claim with its constants, as HTML.

        A theorem without a file of its own has it as an attribute, in plain text.
        """
        from ridgeformer.experiments.theorems.statements import statement_html

        return Markup(statement_html(self.states, self.measured))

    @abstractmethod
    def measure(self, seed: int, fast: bool) -> Outcome: ...

    def verify(self, seed: int = 0, fast: bool = False) -> Finding:
        """Measures the theorem; a violated or vacuous bound is the finding's verdict, not an error."""
        return Verdict(self, self.measure(seed, fast)).finding(seed)


@dataclass(frozen=True)
class Verdict:
    """Whether what was measured agrees with the theorem, and comes near its bound somewhere."""

    theorem: Theorem
    outcome: Outcome

    @property
    def violated(self) -> bool:
        if self.theorem.equality:
            return not np.abs(self.outcome.ratios - 1).max() <= EQUAL
        return not self.outcome.worst <= 1 + ROUND_OFF

    @property
    def parts(self) -> list[Part]:
        """Every line, step and term, with what it must reach."""
        every = self.theorem.attained
        parts = self.outcome.parts or [Part("all cases", self.outcome.worst)]
        return [replace(p, asked=every if p.asked is None else p.asked) for p in parts]

    @property
    def loosest(self) -> Part:
        """The part that comes nearest to what it must reach, or misses it by most."""
        return min(self.parts, key=slack)

    @property
    def vacuous(self) -> bool:
        return slack(self.loosest) < 1

    @property
    def holds(self) -> bool:
        return not (self.violated or self.vacuous)

    @property
    def word(self) -> str:
        if self.violated:
            return "VIOLATED"
        return "vacuous" if self.vacuous else "holds"

    def finding(self, seed: int) -> Finding:
        theorem, outcome = self.theorem, self.outcome
        loosest, attained = self.loosest, theorem.attained
        values = (outcome.ratios.size, outcome.worst, outcome.median, attained, loosest.reached)
        numbers = Collector(0, seed)
        for measure, value in zip(MEASURES, map(float, values), strict=True):
            numbers.exact(measure, theorem.name, value)
        for part in self.parts:
            numbers.exact(REACHED, theorem.name, part.reached, part=part.name)
            numbers.exact(ASKED, theorem.name, part.asked or 0.0, part=part.name)
        return Finding(
            theorem.name,
            seed,
            0,
            {"settings": outcome.settings, "loosest": loosest.name},
            MEASURES | PARTS,
            numbers.numbers,
            title=theorem.title,
            group=theorem.group,
            statement=theorem.statement,
            see=theorem.see,
            verdict=self.word,
            figures=[Figure.of(outcome.lines, outcome.axes)],
            tables=outcome.tables,
        )


def slack(part: Part) -> float:
    """How many times over a part reaches what it must."""
    return part.reached / part.asked if part.asked else inf


@dataclass
class Measurement:
    """Collects what is measured for one theorem: ratios to bounds, and the lines of its figure.

    Cases belong to a part of the bound: a line, one of its steps, or a term. Each part must reach what the
    theorem says (`attained`), or what is said with it (`reach`).
    """

    ratios: list[np.ndarray] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    points: dict[str, dict[Any, float]] = field(default_factory=dict)
    """By the name of a line its y at each x."""
    bounds: dict[str, str] = field(default_factory=dict)
    """The lines that are bounds, each with the line that it belongs to, or ""."""
    straight: list[Line] = field(default_factory=list)
    """Vertical and horizontal lines."""
    lines: dict[str, int] = field(default_factory=dict)
    """How many cases each line has that is compared step by step."""

    def count(self, *quotients: Values, part: str = "", reach: float | None = None) -> None:
        """Adds cases by their measured/bound; those of no part are only asked not to exceed 1."""
        for quotient in quotients:
            flat = np.asarray(quotient, dtype=float).ravel()
            self.ratios.append(flat)
            if part:
                self.judge(part, float(flat.max(initial=0.0)), reach)

    def judge(self, part: str, reached: float, reach: float | None = None) -> None:
        """Notes that a part reaches so much of its bound; the most that it is ever said to reach counts."""
        known = self.parts.get(part, Part(part, 0.0))
        asked = known.asked if reach is None else reach
        self.parts[part] = Part(part, max(known.reached, reached), asked)

    def compare(
        self,
        measured: Values,
        bound: Values,
        floor: float = 0.0,
        *,
        part: str = "",
        reach: float | None = None,
    ) -> None:
        """Adds the cases whose value or bound is above the floor."""
        self.count(ratios(measured, bound, floor), part=part, reach=reach)

    def compare_terms(
        self,
        part: str,
        measured: Values,
        terms: Mapping[str, Values],
        floor: float = 0.0,
        reach: float | None = None,
    ) -> None:
        """Compares with a bound that is the sum of these terms, each of which is a part of its own.

        A term is judged by the cases in which it is nearly all of the bound.
        """
        *each, measured = np.broadcast_arrays(*map(np.asarray, (*terms.values(), measured)))
        bound = np.asarray(sum(each))
        self.compare(measured, bound, floor)
        for name, term in zip(terms, each, strict=True):
            mine = term >= DOMINATES * bound
            found = ratios(measured[mine], bound[mine], floor)
            self.judge(joined(part, name), float(found.max(initial=0.0)), reach)

    def between(
        self,
        measured: Values,
        lower: Values,
        upper: Values,
        allowance: Values,
        *,
        part: str = "",
        reach: float | None = None,
    ) -> None:
        """Adds cases on both sides of a statement, each of which is a part if it says something."""
        for side, quotients in zip(
            SIDES, each_side(measured, lower, upper, allowance), strict=True
        ):
            self.count(
                quotients, part=joined(part, side) if part and quotients.size else "", reach=reach
            )

    def draw(self, name: str, x: float | str, values: Values) -> None:
        """Draws the largest of all values that the line of that name is given at x."""
        line, y = self.points.setdefault(name, {}), float(np.asarray(values).max())
        line[x] = max(line.get(x, y), y)

    def draw_bound(self, of: str, x: float | str, values: Values, said: str = "bound") -> None:
        """Draws a dotted line, called "of, said", in the colour of the line `of` if there is one."""
        name = joined(of, said)
        self.bounds[name] = of
        self.draw(name, x, values)

    def draw_steps(self, name: str, values: Iterable[Values]) -> None:
        """Draws the largest value of each step."""
        for t, at_step in enumerate(values):
            self.draw(name, t, at_step)

    def at(
        self,
        name: str,
        x: float | str,
        measured: Values,
        bound: Values,
        floor: float = 0.0,
        said: str = "bound",
        *,
        reach: float | None = None,
        each: bool = False,
    ) -> None:
        """Compares, and draws the largest measured value and the largest bound at x.

        The line is one part of the bound, or every x is, if `each` is set.
        """
        part = joined(name, x if isinstance(x, str) else f"{x:.4g}") if each else name
        self.compare(measured, bound, floor, part=part, reach=reach)
        self.draw(name, x, measured)
        self.draw_bound(name, x, bound, said)

    def by_step(
        self,
        name: str,
        measured: Steps,
        bound: Steps,
        floor: float = 0.0,
        first: int = 1,
        *,
        reach: float | Sequence[float] | None = None,
        whole: bool = False,
    ) -> None:
        """Compares the steps from `first` on, and draws the worst of every step.

        Each step t ≥ 1 is a part of the bound, but for those that lie below the floor; `reach` is for all of
        them, or has one entry for each. The line is one part if it is judged as a `whole`.
        """
        self.compare_steps(name, measured, bound, floor, first, reach=reach, whole=whole)
        self.draw_steps(name, measured)
        for t, at_step in enumerate(bound):
            self.draw_bound(name, t, at_step)

    def compare_steps(
        self,
        name: str,
        measured: Steps,
        bound: Steps,
        floor: float = 0.0,
        first: int = 1,
        *,
        reach: float | Sequence[float] | None = None,
        whole: bool = False,
    ) -> None:
        """Compares step by step, as `by_step` does, and draws nothing."""
        if first == 0:
            self.compare(measured[0], bound[0], floor)
        self.lines.setdefault(name, 0)
        for t in range(max(first, 1), len(measured)):
            quotients = ratios(measured[t], bound[t], floor)
            self.lines[name] += quotients.size
            asked = reach[t - 1] if isinstance(reach, Sequence) else reach
            here = name if whole else f"{name}, t = {t}"
            self.count(quotients, part=here if quotients.size else "", reach=asked)

    def mark(self, x: float, said: str, of: str = "") -> None:
        """Draws a dotted vertical line, over all that is drawn so far, where the theory puts a failure."""
        values = [y for line in self.points.values() for y in line.values()]
        ends = [max(min(values), LEAST), max(values)]
        self.straight.append(Line(joined(of, said), [x, x], ends, bound=True, of=of))

    def level(self, name: str, y: float, xs: Iterable[float]) -> None:
        """Draws a dotted horizontal line from the least x to the largest."""
        ends = sorted(xs)
        self.straight.append(Line(name, [ends[0], ends[-1]], [y, y], bound=True))

    def outcome(self, settings: str, axes: Axes) -> Outcome:
        least = LEAST if axes.log_y else -inf
        lines = [
            Line(
                name,
                list(line),
                [max(y, least) for y in line.values()],
                bound=name in self.bounds,
                of=self.bounds.get(name, ""),
            )
            for name, line in self.points.items()
        ]
        for name, cases in self.lines.items():
            if not cases:  # all steps lie below the floor, so that nothing is known of the line
                self.judge(name, 0.0)
        ratios, drawn = np.concatenate(self.ratios), lines + self.straight
        return Outcome(settings, ratios, drawn, axes, parts=list(self.parts.values()))


def joined(of: str, said: str) -> str:
    return f"{of}, {said}" if of else said
