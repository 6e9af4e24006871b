"""Figures, drawn with plotly from the plain data of a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import floor, isfinite, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeformer.experiments.finding import Axes, Figure, Heatmap, Line, Matrices, Panel
from ridgeformer.experiments.wording import maths

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Drawing

PALETTE = (
    "#2f5fd0", "#e07b39", "#2a9d8f", "#8e5bd0", "#c23b5a", "#6b7a8f", "#b8860b", "#1b7fa8",
    "#7a9a01", "#d46fb1", "#a0522d", "#4b5d16", "#9aa5b8", "#5f4b8b",
)  # fmt: skip
FONT = {"family": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif", "size": 14}
WRAPPED = 14
"""Letters in a line of a case's name: names that fit are not turned."""
MOST_CASES = 8
"""The names of more cases are turned on a phone, where each has room for one line."""
WIDE, TALL = 44, 34
"""Letters in a line of an axis's title, across a phone and along a panel."""
SHORT = 9
"""Letters in a line of a panel's title, however many panels are beside each other."""
FEW_TICKS, MANY_TICKS = 5, 12
"""Ticks at every whole number, if there are no more of them in a panel or across a figure."""
FAR = 1e3
"""By how many times its limits a line that leaves the picture may be drawn beyond them."""
SIGNED = 1e3
"""The residual stream is coloured by sign(v)·log10(1 + SIGNED·|v|)."""
CROWDED = 20
"""Cells beside each other, beyond which there is room for two decimals in each."""


LOWEST = 6
"""Rows for which a figure of matrices has room at least: its scale needs as much."""


def draw(figure: Figure | Heatmap | Matrices) -> Drawing:
    match figure:
        case Heatmap():
            return draw_heatmap(figure)
        case Matrices():
            return draw_matrices(figure)
    return draw_panels(figure)


def draw_panels(figure: Figure) -> Drawing:
    """A grid of panels; `legend` has the names of their lines."""
    from plotly.subplots import make_subplots

    rows, columns = figure.rows, len(figure.rows[0])
    titled = [any(panel.title for panel in row) for row in rows]
    apart = any(titled[1:])  # titles need room between the rows
    drawing = make_subplots(
        rows=len(rows), cols=columns, shared_yaxes=True, shared_xaxes=not apart,
        horizontal_spacing=0.04, vertical_spacing=0.2 if apart else 0.07,
        subplot_titles=[in_lines(panel.title, max(SHORT, WIDE // columns)) for panel in chain(*rows)],
    )  # fmt: skip
    drawing.update_annotations(font={"size": 14})
    places = [x for line in figure.lines for x in line.x]
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        axes = row[0].axes
        heights = [float(v) for panel in row for line in panel.lines for v in line.y if isfinite(v)]
        y = vertical(axes, heights)
        for column, panel in enumerate(row, start=1):
            at = {"row": number, "col": column}
            for line, color in coloured(panel):
                trace = bars if panel.axes.bars else scatter
                drawing.add_trace(trace(line, color, panel.axes, line.name not in seen), **at)
                seen.add(line.name)
            drawing.update_xaxes(horizontal(panel.axes, places, columns), **at)
            drawing.update_yaxes(y, **at)
            if number == len(rows) or apart:
                below = in_lines(panel.axes.x, max(SHORT, WIDE // columns))
                small = {"title_font_size": 13} if columns > 2 else {}
                drawing.update_xaxes(title_text=below, automargin=True, **small, **at)
        drawing.update_yaxes(title_text=in_lines(axes.y, TALL), automargin=True, row=number, col=1)
    if figure.guide is not None:
        add_guide(drawing, *figure.guide, log=rows[0][0].axes.log_x)
    stacked = rows[0][0].axes.bars == "stacked"
    style(drawing, 40 + 330 * len(rows), barmode="stack" if stacked else "group", bargap=0.25)
    return drawing.update_layout(showlegend=False, margin={"t": 60 if titled[0] else 24})


@dataclass(frozen=True)
class Key:
    """A name in the legend, with how its lines look."""

    name: str
    group: str
    color: str
    dash: str
    filled: bool
    shown: bool
    rank: float


def legend(drawing: Drawing) -> list[Key]:
    """The lines of a figure once each, emphasised ones first; empty if there is only one."""
    keys: dict[str, Key] = {}
    for trace in drawing.data:
        if trace.type not in ("scatter", "bar") or trace.showlegend is False or not trace.name:
            continue
        group, bar = trace.legendgroup or trace.name, trace.type == "bar"
        line = trace.marker if bar else trace.line
        key = Key(
            trace.name, group, str(line.color), "solid" if bar else str(line.dash), bar,
            trace.visible is not False and trace.visible != "legendonly", trace.legendrank or 1000,
        )  # fmt: skip
        keys.setdefault(group, key)
    return sorted(keys.values(), key=lambda key: key.rank) if len(keys) > 1 else []


def style(drawing: Drawing, height: int, **layout: Any) -> Drawing:
    return drawing.update_layout(
        template="plotly_white",
        height=height,
        font=FONT,
        margin={"l": 70, "r": 44, "t": 90, "b": 60},
        modebar={"orientation": "v"},
        **layout,
    )


def coloured(panel: Panel) -> list[tuple[Line, str]]:
    """Each line with its colour, which is the colour of the line that it belongs to, if there is one."""
    measured = [line.name for line in panel.lines if not line.bound]
    owners = list(dict.fromkeys([*measured, *(line.of or line.name for line in panel.lines)]))
    pairs: list[tuple[Line, str]] = []
    for line in panel.lines:
        if not line.x:  # a bound that is empty here
            continue
        index = owners.index(line.of or line.name)
        if panel.axes.bars:  # which cannot be dotted
            index = len(pairs)
        pairs.append((line, line.color or PALETTE[index % len(PALETTE)]))
    return pairs


def values_of(line: Line) -> list[np.ndarray]:
    """The values, and the ends of their intervals where there are any."""
    bare = line.low is None or line.high is None
    return [np.asarray(v, float) for v in ((line.y,) if bare else (line.y, line.low, line.high))]


def scatter(line: Line, color: str, axes: Axes, legend: bool) -> dict[str, Any]:
    exact = shown = values_of(line)
    if axes.y_limits is not None:
        ends = axes.y_limits if axes.clip else far_beyond(axes.y_limits, axes.log_y)
        shown = [np.clip(v, *ends) for v in exact]
    numbers = "%{customdata[0]:.3g}"
    if len(exact) > 1:
        numbers += " [%{customdata[1]:.3g}, %{customdata[2]:.3g}]"
    marker = {"size": 7, "color": color}
    if line.mode == "markers":
        marker |= {"size": 8, "symbol": "circle-open", "line": {"width": 2}}
    return {
        "type": "scatter", "x": list(line.x), "y": shown[0], "name": maths(line.name),
        "legendgroup": line.name, "showlegend": legend, "visible": "legendonly" if line.hidden else True, "legendrank": 1 if line.width > Line.width else 1000,
        "mode": line.mode or ("lines" if line.bound and len(line.x) > 1 else "lines+markers"),
        "line": {"color": color, "dash": line.dash or ("dot" if line.bound else "solid"), "width": line.width},
        "marker": marker, "error_y": error_bars(*shown),
        "customdata": np.stack(exact, axis=-1), "hovertemplate": "%{x:.4g}: " + numbers,
    }  # fmt: skip


def far_beyond(limits: tuple[float, float], log: bool) -> tuple[float, float]:
    """Where a line that leaves the picture may end: a browser draws no path to 10¹⁰⁰."""
    low, high = limits
    return (low / FAR, high * FAR) if log else (low - FAR * (high - low), high + FAR * (high - low))


def bars(line: Line, color: str, axes: Axes, legend: bool) -> dict[str, Any]:
    letters = WRAPPED if len(line.x) <= MOST_CASES else WIDE
    return {
        "type": "bar", "x": [in_lines(str(x), letters) for x in line.x], "y": list(line.y),
        "name": maths(line.name), "legendgroup": line.name, "marker": {"color": color}, "showlegend": legend,
        "error_y": error_bars(*values_of(line)), "hovertemplate": "%{x}: %{y:.3g}",
    }  # fmt: skip


def error_bars(y: Any, low: Any = None, high: Any = None) -> dict[str, Any] | None:
    if low is None:
        return None
    ends = {"array": high - y, "arrayminus": y - low}
    return {"type": "data", "thickness": 1.5, "width": 4, **ends}


def horizontal(axes: Axes, places: Sequence[Any], columns: int) -> dict[str, Any]:
    if any(isinstance(x, str) for x in places) or axes.bars:
        return {"type": "category"}
    steps = sorted({float(x) for x in places})
    whole = len(steps) <= max(FEW_TICKS, MANY_TICKS // columns) and all(s == int(s) for s in steps)
    ticks = steps if axes.x_ticks is None and whole and not axes.log_x else axes.x_ticks
    return scale(steps, axes.log_x, ticks, None)


def vertical(axes: Axes, heights: Sequence[float]) -> dict[str, Any]:
    limits = axes.y_limits
    if limits is None and axes.bars and axes.log_y:
        # Bars have no foot on a logarithmic axis: it is put below the smallest.
        below = 30 if max(heights) > 1e3 * min(heights) else 2
        limits = (min(heights) / below, 2 * max(heights))
    return scale(heights, axes.log_y, axes.y_ticks, limits)


def scale(
    values: Sequence[float], log: bool, ticks: Sequence[float] | None, limits: tuple[float, float] | None
) -> dict[str, Any]:  # fmt: skip
    """Linear or logarithmic, with several ticks, and not more than fit."""
    layout: dict[str, Any] = {"type": "log" if log else "linear"}
    if limits is not None:
        ends = np.log10(limits) if log else np.array(limits, float)
        margin = 0.03 * (ends[1] - ends[0])
        layout["range"] = [ends[0] - margin, ends[1] + margin]
    positive = [v for v in values if v > 0]
    if log and ticks is None and positive:
        low, high = limits or (min(positive), max(positive))
        span = log10(high / low)
        if span >= 2:
            return layout | {"exponentformat": "power", "dtick": max(1, round(span / 8))}
        decades = range(floor(log10(low)), floor(log10(high)) + 1)
        ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
        ticks = [t for t in ticks if low / 2 < t < 2 * high]
    if ticks is not None:
        layout |= {"tickvals": list(ticks), "ticktext": [f"{t:g}" for t in ticks]}
    return layout


def in_lines(text: str, letters: int) -> str:
    return maths("<br>".join(wrap(text, letters)))


def add_guide(drawing: Drawing, x: float, text: str, log: bool) -> None:
    drawing.add_vline(x=x, line={"color": "#8a93a3", "dash": "dot"})
    drawing.add_annotation(
        x=log10(x) if log else x, y=1, yref="paper", text=text, showarrow=False, xanchor="left",
        yanchor="top", font={"color": "#5b6577", "size": 12},
    )  # fmt: skip


def draw_heatmap(figure: Heatmap) -> Drawing:
    """Channels by layers, one panel per token; colour is the value on a signed logarithmic scale."""
    from plotly.subplots import make_subplots

    heights = [len(s.channels) for s in figure.streams]
    drawing = make_subplots(
        rows=len(heights), shared_xaxes=True, vertical_spacing=0.07, row_heights=heights,
        subplot_titles=[in_lines(s.title, TALL) for s in figure.streams],
    )  # fmt: skip
    for row, stream in enumerate(figure.streams, start=1):
        values = stream.values.T
        coloured = np.sign(values) * np.log10(1 + SIGNED * np.abs(values))
        drawing.add_heatmap(
            z=np.where(values == 0, np.nan, coloured), x=list(figure.layers), y=list(stream.channels),
            text=[[f"{v:.4g}" for v in channel] for channel in values], coloraxis="coloraxis",
            hovertemplate="%{y}, layer %{x}: %{text}<extra></extra>", row=row, col=1,
        )  # fmt: skip
        drawing.update_yaxes(autorange="reversed", tickfont={"size": 12}, row=row, col=1)
        for layer in figure.marks:
            dotted = {"color": "#5b6577", "width": 1, "dash": "dot"}
            drawing.add_vline(x=layer, line=dotted, row=row, col=1)
    drawing.update_annotations(font={"size": 13})
    for layer, label in figure.marks.items():
        drawing.add_annotation(
            x=layer, y=1.0, yref="paper", yshift=58, text=maths(label), showarrow=False, font={"size": 12}
        )  # fmt: skip
    drawing.update_xaxes(title_text="layer", row=len(heights), col=1)
    ticks = [-4, -2, 0, 2, 4]
    labels = [f"{np.sign(t) * (10 ** abs(t) - 1) / SIGNED:.3g}" for t in ticks]
    # Below, where it takes no width of a phone.
    bar = {
        "title": "value", "tickvals": ticks, "ticktext": labels, "orientation": "h", "thickness": 14,
        "yref": "container", "y": 0, "yanchor": "bottom",
    }  # fmt: skip
    colours = {"colorscale": "RdBu_r", "cmid": 0, "cmin": -4, "cmax": 4, "colorbar": bar}
    drawing.update_layout(coloraxis=colours)
    return style(drawing, 180 + 24 * sum(heights), plot_bgcolor="#eef1f5").update_layout(
        margin={"b": 120}
    )


def draw_matrices(figure: Matrices) -> Drawing:
    """Matrices beside each other; a mark is an open circle in its cell."""
    from plotly.subplots import make_subplots

    columns = len(figure.panels)
    drawing = make_subplots(
        cols=columns, horizontal_spacing=0.25 / columns, subplot_titles=[maths(m.title) for m in figure.panels]
    )  # fmt: skip
    every = [v for m in figure.panels for row in m.values for v in row if isfinite(v)]
    low, high = figure.limits or (min(every, default=0.0), max(every, default=1.0))
    crowded = figure.written and sum(len(m.columns) for m in figure.panels) > CROWDED
    for column, matrix in enumerate(figure.panels, start=1):
        values = np.asarray(matrix.values, float)
        across, down = (
            [maths(str(name)) for name in names] for names in (matrix.columns, matrix.rows)
        )
        z = np.clip(values, low, high)
        drawing.add_heatmap(
            z=np.log10(z) if figure.log else z, x=across, y=down,
            text=in_cells(values, ".2f" if crowded else ".3g"), customdata=in_cells(values, ".3g"), coloraxis="coloraxis",
            texttemplate="%{text}" if figure.written else None, xgap=1, ygap=1,
            hovertemplate=f"{figure.y} %{{y}}, {figure.x} %{{x}}: %{{customdata}}<extra></extra>", row=1, col=column,
        )  # fmt: skip
        if matrix.marked:
            drawing.add_scatter(
                x=[across[c] for _, c in matrix.marked], y=[down[r] for r, _ in matrix.marked],
                mode="markers", marker={"symbol": "circle-open", "size": 11, "color": "#e07b39", "line": {"width": 2.5}},
                showlegend=False, hoverinfo="skip", row=1, col=column,
            )  # fmt: skip
        wide, tall = len(matrix.columns) - 0.5, len(matrix.rows) - 0.5
        below = {"title_text": maths(figure.x), "type": "category", "range": [-0.5, wide]}
        drawing.update_xaxes(below, row=1, col=column)
        drawing.update_yaxes(type="category", range=[tall, -0.5], row=1, col=column)
    drawing.update_yaxes(title_text=maths(figure.y), row=1, col=1)
    bar: dict[str, Any] = {"title": {"text": maths(figure.scale), "side": "right"}}
    if figure.log:
        ticks = range(floor(log10(low)), floor(log10(high)) + 1)
        bar |= {"tickvals": list(ticks), "ticktext": [f"{10.0**t:g}" for t in ticks]}
        low, high = log10(low), log10(high)
    scale = {"colorscale": "Blues" if figure.written else "Viridis", "cmin": low, "cmax": high}
    drawing.update_layout(coloraxis={**scale, "colorbar": bar})
    tallest = max(len(m.rows) for m in figure.panels)
    longest = max(len(str(name)) for m in figure.panels for name in m.columns)
    turned = 6 * longest if longest > SHORT else 0
    return style(drawing, 190 + turned + 26 * max(tallest, LOWEST), plot_bgcolor="#eef1f5")


def in_cells(values: np.ndarray, digits: str) -> list[list[str]]:
    """A matrix as text; what is not a number is left out."""
    return [[f"{v:{digits}}" if isfinite(v) else "" for v in row] for row in values]
