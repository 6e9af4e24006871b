"""The report of `verify`: a table, and for each theorem its statement, numbers and figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import floor, log10
from pathlib import Path
from typing import Any

from ridgeformer.experiments.report import Paragraph, Section, Table, bar_figure, write_page
from ridgeformer.experiments.report.lines import Axis, Plot, line_figure
from ridgeformer.experiments.report.lines import Line as Drawn
from ridgeformer.experiments.theorems.base import Outcome, Verdict

HEADER = ["theorem", "settings", "cases", "worst measured/bound", "median", "holds"]
COLORS = (
    "#2f5fd0", "#e07b39", "#2a9d8f", "#8e5bd0", "#c23b5a", "#6b7a8f", "#b8860b", "#1b7fa8",
    "#7a9a01", "#d46fb1",
)  # fmt: skip


def row(verdict: Verdict) -> list[str]:
    found = verdict.outcome
    return [
        verdict.theorem.name,
        found.settings,
        f"{found.ratios.size:,}",
        f"{found.worst:.4g}",
        f"{found.median:.2g}",
        verdict.word if not verdict.holds else "yes",
    ]


def maths(text: str | float) -> str:
    """Subscripts as HTML: f_t and σ_{m+1}, as the statements and axes write them."""
    return re.sub(
        r"_(?:\{([^}]*)\}|([A-Za-z0-9]+))", lambda m: f"<sub>{m[1] or m[2]}</sub>", str(text)
    )


def figure(outcome: Outcome) -> Any:
    axes = outcome.axes
    names = [line.name for line in outcome.lines if not line.bound]
    drawn: list[Drawn] = []
    for line in outcome.lines:
        if not line.x:  # a bound that is empty here
            continue
        # "a, bound" is drawn in the colour of "a", the longest name that it begins with.
        owners = [n for n in names if f"{line.name},".startswith(f"{n},")]
        owner = names.index(max(owners, key=len)) if owners else len(names)
        if axes.bars:  # which cannot be dotted
            owner = len(drawn)
        drawn.append(
            Drawn(
                maths(line.name),
                [maths(x) for x in line.x] if axes.bars else [float(x) for x in line.x],
                list(line.y),
                COLORS[owner % len(COLORS)],
                line.low,
                line.high,
                dash="dot" if line.bound else "solid",
                mode="lines" if line.bound and len(line.x) > 1 else "lines+markers",
            )
        )
    heights = [v for line in outcome.lines for v in line.y]
    y = axis(axes.y, heights, axes.log_y)
    if axes.bars:
        if axes.log_y:  # bars have no foot on a logarithmic axis: it is put below the smallest
            below = 30 if max(heights) > 1e3 * min(heights) else 2
            y = replace(y, limits=(min(heights) / below, 2 * max(heights)))
        return bar_figure(drawn, Axis(maths(axes.x)), y, stacked=axes.bars == "stacked")
    places = [float(x) for line in outcome.lines for x in line.x]
    x = axis(axes.x, places, axes.log_x)
    steps = sorted(set(places))
    if len(steps) <= 12 and all(step == int(step) for step in steps) and not axes.log_x:
        x = replace(x, ticks=steps)
    return line_figure([[Plot("", drawn)]], x, y)


def axis(title: str, values: Sequence[float], log: bool) -> Axis:
    """With several ticks, and not more than fit."""
    if not log:
        return Axis(maths(title))
    low, high = (f(v for v in values if v > 0) for f in (min, max))
    span = log10(high / low)
    if span >= 2:
        return Axis(maths(title), log=True, decades=max(1, round(span / 8)))
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return Axis(maths(title), log=True, ticks=[t for t in ticks if low / 2 < t < 2 * high])


def write_report(path: Path, verdicts: Sequence[Verdict], seed: int, fast: bool) -> None:
    held = sum(v.holds for v in verdicts)
    summary = Section(
        f"{held} of {len(verdicts)} hold",
        "Each bound is measured as measured/bound, which must never exceed 1, and must come near it "
        "somewhere, or the bound would say nothing. Names lead to statements and figures.",
        [Table(HEADER, [row(v) for v in verdicts], words=2, linked=True)],
        anchor="summary",
    )
    write_page(
        path,
        "Theorems, measured",
        "Every statement with its constants, on compiled transformers and on the numerics.",
        [summary, *(section(v) for v in verdicts)],
        f"Seed {seed}{', fast settings' if fast else ''}; float64 unless said otherwise. All numbers are in "
        "<code>results.json</code>.",
    )


def section(verdict: Verdict) -> Section:
    theorem, found = verdict.theorem, verdict.outcome
    numbers = (
        f"<b>{verdict.word}</b>: worst measured/bound {found.worst:.4g}, median {found.median:.2g} over "
        f"{found.ratios.size:,} cases ({maths(found.settings)}). <a href='#summary'>All theorems</a>"
    )
    content = [
        Paragraph(maths(theorem.statement), "statement"),
        Paragraph(numbers, "soft"),
        Paragraph(f"<b>{maths(theorem.see)}</b>", "see"),
        figure(found),
    ]
    return Section(theorem.title, "", content, anchor=theorem.name)
