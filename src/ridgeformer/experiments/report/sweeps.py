"""Curves with intervals over a swept setting, drawn from plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ridgeformer.experiments.report.figures import style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Curve:
    """Means with intervals along a panel's axis; NaN leaves a gap."""

    name: str
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    color: str
    dash: str = "solid"
    """Controls are dashed or dotted, what is compared is solid."""


@dataclass(frozen=True)
class Panel:
    title: str
    x: Sequence[float]
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Row:
    """Panels side by side that share one vertical axis."""

    y_title: str
    panels: Sequence[Panel]
    limits: tuple[float, float]
    """What is drawn; values beyond lie at the edge."""
    log: bool = False


def sweep_figure(rows: Sequence[Row], x_title: str) -> Figure:
    """A grid of panels: measures below each other, cases side by side, one legend."""
    from plotly.subplots import make_subplots

    columns = len(rows[0].panels)
    figure = make_subplots(
        rows=len(rows), cols=columns, shared_yaxes=True, shared_xaxes=True,
        vertical_spacing=0.07, horizontal_spacing=0.03,
        subplot_titles=[panel.title for panel in rows[0].panels],
    )  # fmt: skip
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        for column, panel in enumerate(row.panels, start=1):
            # Settings are steps of a plan, not points of a continuum: they are spaced evenly.
            positions = np.arange(len(panel.x))
            for curve in panel.curves:
                add_curve(figure, curve, positions, row, number, column, curve.name not in seen)
                seen.add(curve.name)
            figure.update_xaxes(
                tickvals=positions, ticktext=[f"{x:g}" for x in panel.x], row=number, col=column
            )
        edges = np.log10(row.limits) if row.log else np.array(row.limits)
        margin = 0.03 * (edges[1] - edges[0])
        figure.update_yaxes(
            type="log" if row.log else "linear",
            range=[edges[0] - margin, edges[1] + margin],
            row=number,
        )
        figure.update_yaxes(title_text=row.y_title, row=number, col=1)
        if row.log:
            ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10) if row.limits[0] <= t <= row.limits[1]]
            figure.update_yaxes(tickvals=ticks, ticktext=[f"{t:g}" for t in ticks], row=number)
    figure.update_xaxes(title_text=x_title, row=len(rows))
    style(figure, 110 + 290 * len(rows))
    return figure.update_layout(legend={"y": 1.06, "yanchor": "bottom"}, margin={"t": 140})


def add_curve(
    figure: Figure, curve: Curve, x: np.ndarray, row: Row, number: int, column: int, legend: bool
) -> None:
    mean, low, high = (np.clip(v, *row.limits) for v in (curve.mean, curve.low, curve.high))
    figure.add_scatter(
        x=x, y=mean, name=curve.name, legendgroup=curve.name, showlegend=legend,
        legendrank=1 if curve.dash == "solid" else 2, mode="lines+markers", line={"color": curve.color, "dash": curve.dash, "width": 2.5},
        marker={"size": 6},
        error_y={
            "type": "data", "array": high - mean, "arrayminus": mean - low,
            "thickness": 1.5, "width": 4,
        },
        customdata=np.stack([curve.mean, curve.low, curve.high], axis=-1),
        hovertemplate="%{customdata[0]:.3g} [%{customdata[1]:.3g}, %{customdata[2]:.3g}]",
        row=number, col=column,
    )  # fmt: skip
