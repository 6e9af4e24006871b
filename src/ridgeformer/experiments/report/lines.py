"""Lines over a continuous axis, linear or logarithmic, with intervals, drawn from plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeformer.experiments.report.figures import style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Line:
    """Values along x, with an interval at each where it is given; NaN leaves a gap."""

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    color: str
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dash: str = "solid"
    mode: str = "lines"
    """lines, markers or both."""


@dataclass(frozen=True)
class Plot:
    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Axis:
    title: str
    log: bool = False
    limits: tuple[float, float] | None = None
    """What is drawn; all if left out."""
    ticks: Sequence[float] | None = None
    decades: int = 1
    """From tick to tick of a logarithmic axis."""

    def layout(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "log" if self.log else "linear"}
        if self.log:
            found |= {"exponentformat": "power", "dtick": self.decades}
        if self.ticks is not None:
            found |= {"tickvals": list(self.ticks), "ticktext": [f"{t:g}" for t in self.ticks]}
        if self.limits is not None:
            found["range"] = list(np.log10(self.limits) if self.log else self.limits)
        return found


def line_figure(rows: Sequence[Sequence[Plot]], x: Axis, y: Axis) -> Figure:
    """A grid of plots with common axes and one legend."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(rows), cols=len(rows[0]), shared_yaxes=True, horizontal_spacing=0.04,
        vertical_spacing=0.16, subplot_titles=[plot.title for row in rows for plot in row],
    )  # fmt: skip
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        for column, plot in enumerate(row, start=1):
            for line in plot.lines:
                add_line(figure, line, number, column, line.name not in seen)
                seen.add(line.name)
            figure.update_xaxes(title_text=x.title, row=number, col=column, **x.layout())
            figure.update_yaxes(row=number, col=column, **y.layout())
        figure.update_yaxes(title_text=y.title, row=number, col=1)
    style(figure, 110 + 330 * len(rows))
    titles = any(plot.title for row in rows for plot in row)
    top = 1 + (0.12 if titles else 0.02) / len(rows)
    margin = 130 if titles else 70
    return figure.update_layout(legend={"y": top, "yanchor": "bottom"}, margin={"t": margin})


def error_bars(line: Line) -> dict[str, Any] | None:
    if line.low is None or line.high is None:
        return None
    mean, low, high = (np.asarray(v, dtype=float) for v in (line.y, line.low, line.high))
    return {
        "type": "data", "array": high - mean, "arrayminus": mean - low, "thickness": 1.5, "width": 4,
    }  # fmt: skip


def add_line(figure: Figure, line: Line, row: int, column: int, legend: bool) -> None:
    figure.add_scatter(
        x=list(line.x), y=list(line.y), name=line.name, legendgroup=line.name, showlegend=legend,
        mode=line.mode, line={"color": line.color, "dash": line.dash, "width": 2.5},
        marker={"size": 7, "color": line.color}, error_y=error_bars(line),
        hovertemplate="%{x:.4g}: %{y:.3g}", row=row, col=column,
    )  # fmt: skip
