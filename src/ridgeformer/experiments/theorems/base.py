"""What is verified: theorems with explicit constants, each measured as measured/bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

ROUND_OFF = 1e-9
"""How far measured/bound may exceed 1: round-off in bounds that are attained."""


EQUAL = 1e-8
"""How far measured/predicted may be from 1 where the theorem is an equality."""


@dataclass(frozen=True)
class Line:
    """One curve of the figure, or one colour of bars: the worst case at each x."""

    name: str
    x: Sequence[float] | Sequence[str]
    """Numbers, or for bars the names of cases."""
    y: Sequence[float]
    bound: bool = False
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    """The ends of an interval at each x."""


@dataclass(frozen=True)
class Axes:
    x: str
    y: str
    log_x: bool = False
    log_y: bool = True
    bars: Literal["", "beside", "stacked"] = ""
    """How bars of several colours stand, if bars are drawn."""


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

    name: str
    title: str
    states: tuple[str, ...] = ()
    """The names of the statements that are measured, each a file in `statements/`."""
    measured: str = ""
    """What is counted as measured, and on what, where the statement does not say so."""
    see: str
    """One sentence: what the figure shows."""
    attained: float = 0.1
    """The least measured/bound that some case must reach, or the bound would be vacuous."""
    equality: bool = False
    """Whether every case must reach it, up to EQUAL."""

    @property
    def statement(self) -> str:
        """With its constants, as HTML. A theorem without a file of its own has it as an attribute."""
        from ridgeformer.experiments.theorems.statements import statement_html

        return statement_html(self.states, self.measured)

    @abstractmethod
    def measure(self, seed: int, fast: bool) -> Outcome: ...


@dataclass(frozen=True)
class Verdict:
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


def ratios(measured: np.ndarray, bound: np.ndarray, floor: float) -> np.ndarray:
    """measured/bound wherever one of them is above what round-off alone may cost.

    A bound below that which is exceeded counts, so that none can pass by being too small.
    """
    measured, bound = np.broadcast_arrays(np.asarray(measured), np.asarray(bound))
    above = (bound > floor) | (measured > floor)
    found: np.ndarray = (measured[above] / np.maximum(bound[above], max(floor, 1e-30))).ravel()
    return found
