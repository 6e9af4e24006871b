"""A figure as a PNG, drawn with matplotlib from the same plain data as the page."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import chain

from ridgeformer.experiments.figures import coloured
from ridgeformer.experiments.finding import Figure, Line

INK, SOFT, GRID = "#1c2330", "#5b6577", "#e6e9ef"
STYLES = {"": "-", "solid": "-", "dot": ":", "dash": "--"}
WIDTH, HEIGHT, RESOLUTION = 12.0, 4.6, 100
"""In inches and dots per inch: 1200 pixels wide."""


def png(figure: Figure, title: str) -> bytes:
    """The panels beside each other under one title and one legend."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    panels = list(chain(*figure.rows))
    with rc_context(
        {"font.family": "DejaVu Sans", "font.size": 12, "mathtext.fontset": "dejavusans"}
    ):
        canvas = Canvas(figsize=(WIDTH, HEIGHT), dpi=RESOLUTION, facecolor="white")
        grid = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            for line, color in coloured(panel):
                axes.plot(list(line.x), list(line.y), color=color, label=line.name, **look(line))
            axes.set_xscale("log" if panel.axes.log_x else "linear")
            axes.set_yscale("log" if panel.axes.log_y else "linear")
            axes.set_title(panel.title, fontsize=14, color=INK, pad=10)
            axes.set_xlabel(mathtext(panel.axes.x), color=SOFT)
            axes.grid(color=GRID)
            axes.tick_params(colors=SOFT, length=0)
            for side in ("top", "right", "left", "bottom"):
                axes.spines[side].set_visible(False)
        grid[0].set_ylabel(mathtext(panels[0].axes.y), color=SOFT)
        canvas.suptitle(
            title, x=0.065, y=0.965, ha="left", fontsize=17, fontweight="bold", color=INK
        )
        handles, labels = grid[0].get_legend_handles_labels()
        canvas.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(0.058, 0.905), ncols=len(labels), frameon=False
        )  # fmt: skip
        canvas.subplots_adjust(left=0.072, right=0.985, top=0.73, bottom=0.13, wspace=0.07)
        image = BytesIO()
        canvas.savefig(image, format="png", metadata={"Software": None})
    return image.getvalue()


def look(line: Line) -> dict[str, object]:
    """Open circles, a line, or both, as on the page."""
    if line.mode == "markers":
        return {"ls": "", "marker": "o", "ms": 8, "mfc": "none", "mew": 2, "zorder": 3}
    dash = line.dash or ("dot" if line.bound else "solid")
    return {"ls": STYLES[dash], "lw": line.width}


def mathtext(text: str) -> str:
    """The formulas f_t and f* of a title, as matplotlib sets them."""
    text = re.sub(r"([^\W\d_])_\{?(\w+)\}?", r"$\1_{\2}$", text)
    return re.sub(r"([^\W\d_])\*", r"$\1^*$", text)
