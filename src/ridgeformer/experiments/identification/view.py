"""How the numbers of an identification are found and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.figures import PALETTE
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import floored, line, spread

T = TypeVar("T")

PROSE = Prose("identify")
MODEL = "model"
FLOOR = 1e-8
"""Smaller numbers are round-off, and are drawn there."""
LAYER = "layer, or step of a candidate"
FULL = 12
"""Of a deeper model so many layers are shown, evenly spread; all of them are in the findings."""


@dataclass(frozen=True)
class View:
    """A finding as the sections of a page read it."""

    finding: f.Finding

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.finding.settings)

    def part(self, name: str) -> dict[str, Any]:
        """What a part of the evidence said besides numbers."""
        return dict(self.settings["parts"].get(name, {}))

    @property
    def compared(self) -> list[str]:
        """The candidates that were measured in the same way as the model."""
        return list(self.settings["compared"])

    @property
    def methods(self) -> list[str]:
        return [MODEL, *self.compared]

    def layers(self, measure: str, method: str, **setting: float | str) -> list[f.Number]:
        """The numbers of the layers, or of the layers in which steps were found."""
        found = self.finding.select(measure, method, **setting)
        return [number for number in found if "layer" in number.setting]

    def own(self, measure: str, **setting: float | str) -> f.Number:
        """The number of the model's own predictions."""
        return self.finding.get(measure, MODEL, at="prediction", **setting)

    def curve(self, measure: str, method: str, floor: float = 0.0, **setting: Any) -> f.Line:
        """The numbers of a method over its layers; those of a candidate over its steps."""
        numbers = self.layers(measure, method, **setting)
        key = "layer" if method == MODEL else "step"
        places = [float(n.setting[key]) for n in numbers]
        drawn = line(label(method), places, numbers, gaps=False, **self.look(method))
        return floored(drawn, floor) if floor else drawn

    def curves(
        self, measure: str, floor: float = 0.0, more: Sequence[str] = (), **setting: Any
    ) -> list[f.Line]:
        """Those of the candidates that were compared and of `more`, and of the model on top of all."""
        methods = dict.fromkeys([*self.methods, *more])
        found = [self.curve(measure, m, floor, **setting) for m in reversed(methods)]
        return [drawn for drawn in found if drawn.x]

    def look(self, method: str) -> dict[str, Any]:
        if method == MODEL:
            return {"color": PALETTE[0], "width": 4.0}
        names = [*self.compared, method]
        return {"color": PALETTE[1 + names.index(method)], "dash": "dash"}


def label(method: str) -> str:
    return "the model" if method == MODEL else method


def some(items: Sequence[T], most: int = FULL) -> list[T]:
    """At most so many of the items, evenly spread, with both ends."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def table_of(
    header: Sequence[str], rows: Sequence[tuple[str, Sequence[f.Number | None]]]
) -> f.Table:
    """Numbers with their intervals, a row for each name."""
    return f.Table(
        header, [[name, *("" if n is None else spread(n) for n in numbers)] for name, numbers in rows]
    )  # fmt: skip
