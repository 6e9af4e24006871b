"""Bars over named or numbered cases, beside or upon each other, drawn from plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from ridgeformer.experiments.report.figures import style
from ridgeformer.experiments.report.lines import Axis, Line, error_bars

WRAPPED = 14
"""Letters in a line of a case's name: names that fit are not turned."""

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def bar_figure(bars: Sequence[Line], x: Axis, y: Axis, *, stacked: bool) -> Figure:
    """One colour for each line; on a logarithmic axis bars begin at its lower limit."""
    from plotly.graph_objects import Figure

    figure = Figure()
    for line in bars:
        figure.add_bar(
            x=["<br>".join(wrap(str(x), WRAPPED)) for x in line.x], y=list(line.y), name=line.name, marker={"color": line.color},
            error_y=error_bars(line), hovertemplate="%{x}: %{y:.3g}",
        )  # fmt: skip
    figure.update_xaxes(title_text=x.title)
    figure.update_yaxes(title_text=y.title, **y.layout())
    style(figure, 440, barmode="stack" if stacked else "group", bargap=0.25)
    return figure.update_layout(legend={"y": 1.02, "yanchor": "bottom"}, margin={"t": 70})
