"""Figures drawn from plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MODEL, REFERENCE, BOUND = "#2f5fd0", "#e07b39", "#8a93a3"
FONT = {"family": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif", "size": 14}


@dataclass(frozen=True)
class Convergence:
    """Errors against the closed form, per step, for one setting."""

    title: str
    model: np.ndarray
    reference: np.ndarray
    bound: np.ndarray


def style(figure: Figure, height: int, **layout: Any) -> Figure:
    figure.update_layout(
        template="plotly_white",
        height=height,
        font=FONT,
        margin={"l": 70, "r": 20, "t": 90, "b": 60},
        legend={"orientation": "h", "y": 1.2, "x": 0},
        **layout,
    )
    return figure


def convergence_figure(
    panels: Sequence[Convergence],
    floor: float = 1e-17,
    reference: str = "textbook CG",
    bound: str = "bound",
    step: str = "CG step",
) -> Figure:
    """Error per step, side by side: the model's markers on the reference's line, and the bound."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        cols=len(panels), shared_yaxes=True, subplot_titles=[p.title for p in panels]
    )
    for column, panel in enumerate(panels, start=1):
        steps = np.arange(len(panel.model))
        first = column == 1
        for name, values, line in (
            (bound, panel.bound, {"color": BOUND, "dash": "dot"}),
            (reference, panel.reference, {"color": REFERENCE, "width": 3}),
        ):
            figure.add_scatter(
                x=steps, y=np.maximum(values, floor), name=name, line=line, mode="lines",
                showlegend=first, legendgroup=name, row=1, col=column,
            )  # fmt: skip
        figure.add_scatter(
            x=steps, y=np.maximum(panel.model, floor), name="compiled transformer", mode="markers",
            marker={"color": MODEL, "size": 8, "symbol": "circle-open", "line": {"width": 2}},
            showlegend=first, legendgroup="model", row=1, col=column,
        )  # fmt: skip
        figure.update_xaxes(title_text=step, row=1, col=column)
    figure.update_yaxes(type="log", exponentformat="power", dtick=2)
    figure.update_yaxes(title_text="|f_t − f*|, worst query", row=1, col=1)
    return style(figure, 430)


@dataclass(frozen=True)
class Stream:
    """The residual stream of one token: [sublayers, channels], with a name for each channel."""

    title: str
    values: np.ndarray
    channels: list[str]


def stream_figure(streams: Sequence[Stream], layers: np.ndarray, marks: dict[float, str]) -> Figure:
    """Channels by layers, one panel per token; colour is the value on a signed logarithmic scale."""
    from plotly.subplots import make_subplots

    heights = [len(s.channels) for s in streams]
    figure = make_subplots(
        rows=len(streams), shared_xaxes=True, vertical_spacing=0.07,
        subplot_titles=[s.title for s in streams], row_heights=heights,
    )  # fmt: skip
    for row, stream in enumerate(streams, start=1):
        values = stream.values.T
        shown = np.sign(values) * np.log10(1 + 1e3 * np.abs(values))
        shown = np.where(values == 0, np.nan, shown)
        hover = [[f"{v:.4g}" for v in line] for line in values]
        figure.add_heatmap(
            z=shown, x=layers, y=stream.channels, text=hover, zmid=0, zmin=-4, zmax=4,
            coloraxis="coloraxis", hovertemplate="%{y}, layer %{x}: %{text}<extra></extra>",
            row=row, col=1,
        )  # fmt: skip
        figure.update_yaxes(autorange="reversed", tickfont={"size": 12}, row=row, col=1)
        for position in marks:
            figure.add_vline(
                x=position, line={"color": "#5b6577", "width": 1, "dash": "dot"}, row=row, col=1
            )
    for position, label in marks.items():
        figure.add_annotation(
            x=position,
            y=1.0,
            yref="paper",
            yshift=46,
            text=label,
            showarrow=False,
            font={"size": 12},
        )
    figure.update_xaxes(title_text="layer", row=len(streams), col=1)
    ticks = [-4, -2, 0, 2, 4]
    labels = [f"{np.sign(t) * (10 ** abs(t) - 1) / 1e3:.3g}" for t in ticks]
    figure.update_layout(
        coloraxis={
            "colorscale": "RdBu_r",
            "cmid": 0,
            "cmin": -4,
            "cmax": 4,
            "colorbar": {"title": "value", "tickvals": ticks, "ticktext": labels, "len": 0.6},
        }
    )
    return style(figure, 120 + 24 * sum(heights), plot_bgcolor="#eef1f5")
