"""What is verified: theorems with explicit constants, each measured as measured/bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from markupsafe import Markup

from ridgeformer.experiments.finding import ROUND_OFF, Axes, Collector, Figure, Finding, Line
from ridgeformer.registry import Registry

EQUAL = 1e-8
"""How far measured/predicted may be from 1 where the theorem is an equality."""

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
        return self.outcome.worst < self.theorem.attained

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
        )


def ratios(measured: np.ndarray, bound: np.ndarray, floor: float) -> np.ndarray:
    """measured/bound wherever one of them is above what round-off alone may cost.

    A bound below that which is exceeded counts, so that none can pass by being too small.
    """
    measured, bound = np.broadcast_arrays(np.asarray(measured), np.asarray(bound))
    above = (bound > floor) | (measured > floor)
    quotients: np.ndarray = measured[above] / np.maximum(bound[above], max(floor, 1e-30))
    return quotients.ravel()


__all__ = [
    "EQUAL", "ROUND_OFF", "Axes", "Line", "Outcome", "Theorem", "Verdict", "ratios",
]  # fmt: skip
