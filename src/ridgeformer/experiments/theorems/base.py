"""What is verified: theorems with explicit constants, each measured as measured/bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from ridgeformer.registry import Registry

Values = np.ndarray | Tensor | float
"""A number, an array or a tensor."""
Steps = np.ndarray | Tensor
"""Values of every step, the steps first."""

EQUAL = 1e-8
"""How far measured/predicted may be from 1 where the theorem is an equality."""

LEAST = 1e-17
"""What is drawn for smaller values on a logarithmic axis, which cannot show 0."""

DOMINATES = 0.9
"""The part of a bound that one of its terms must be, so that the case says something about this term."""

MEASURES = {
    "cases": "how many pairs of a measured value and its bound were compared",
    "worst": "the largest measured/bound of all cases",
    "median": "the median measured/bound of all cases",
    "must reach": "the least measured/bound that the worst case must reach",
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
    states: tuple[str, ...] = ()
    """The names of the statements that are measured, each a file in `statements/`."""
    measured: str = ""
    """What is counted as measured, and on what, where the statement does not say so."""
    see: str
    """One sentence that says what the figure shows."""
    attained: float = 0.1
    """The least measured/bound that some case must reach, or the bound would be vacuous."""
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
    def vacuous(self) -> bool:
        asked = self.theorem.attained
        parts = self.outcome.parts or [Part("all cases", self.outcome.worst)]
        return any(p.reached < (asked if p.asked is None else p.asked) for p in parts)

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
        values = (int(outcome.ratios.size), outcome.worst, outcome.median, theorem.attained)
        numbers = Collector(0, seed)
        for measure, value in zip(MEASURES, values, strict=True):
            numbers.exact(measure, theorem.name, value)
        return Finding(
            theorem.name,
            seed,
            0,
            {"settings": outcome.settings},
            MEASURES,
            numbers.numbers,
            title=theorem.title,
            statement=theorem.statement,
            see=theorem.see,
            verdict=self.word,
            figures=[Figure.of(outcome.lines, outcome.axes)],
            tables=outcome.tables,
        )


@dataclass
class Measurement:
    """Collects what is measured for one theorem: ratios to bounds, and the lines of its figure."""

    ratios: list[np.ndarray] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    points: dict[str, dict[Any, float]] = field(default_factory=dict)
    """By the name of a line its y at each x."""
    bounds: dict[str, str] = field(default_factory=dict)
    """The lines that are bounds, each with the line that it belongs to, or ""."""
    straight: list[Line] = field(default_factory=list)
    """Vertical and horizontal lines."""

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

    def between(self, measured: Values, lower: Values, upper: Values, allowance: Values) -> None:
        """Adds cases on both sides of a statement."""
        self.count(both_sides(measured, lower, upper, allowance))

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
    ) -> None:
        """Compares, and draws the largest measured value and the largest bound at x."""
        self.compare(measured, bound, floor, part=name if reach else "", reach=reach)
        self.draw(name, x, measured)
        self.draw_bound(name, x, bound, said)

    def by_step(
        self, name: str, measured: Steps, bound: Steps, floor: float = 0.0, first: int = 1
    ) -> None:
        """Compares the steps from `first` on, and draws the worst of every step."""
        self.compare(measured[first:], bound[first:], floor)
        self.draw_steps(name, measured)
        for t, at_step in enumerate(bound):
            self.draw_bound(name, t, at_step)

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
        return Outcome(
            settings,
            np.concatenate(self.ratios),
            lines + self.straight,
            axes,
            parts=list(self.parts.values()),
        )


def joined(of: str, said: str) -> str:
    return f"{of}, {said}" if of else said


def ratios(measured: Values, bound: Values, floor: float) -> np.ndarray:
    """measured/bound wherever one of them is above what round-off alone may cost.

    A bound below that which is exceeded counts, so that none can pass by being too small.
    """
    measured, bound = np.broadcast_arrays(np.asarray(measured), np.asarray(bound))
    above = (bound > floor) | (measured > floor)
    quotients: np.ndarray = measured[above] / np.maximum(bound[above], max(floor, 1e-30))
    return quotients.ravel()


def both_sides(measured: Values, lower: Values, upper: Values, allowance: Values) -> np.ndarray:
    """measured/upper and lower/measured, flat. The allowance is the certificate's, added to the bounds.

    Where a bound is infinite, or the lower one not above the allowance, it says nothing.
    """
    given = map(np.asarray, (measured, lower, upper, allowance))
    measured, lower, upper, allowance = np.broadcast_arrays(*given)
    below, above = lower > allowance, np.isfinite(upper)
    highest = measured[above] / (upper + allowance)[above]
    return np.append(highest, (lower - allowance)[below] / np.maximum(measured[below], 1e-300))
