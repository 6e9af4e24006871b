"""Runs theorems, prints one table, and writes the report and its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table as RichTable

from ridgeformer import __version__
from ridgeformer.report import Section, Table, check_page, write_page
from ridgeformer.report.lines import Axis, Plot, line_figure
from ridgeformer.report.lines import Line as Drawn
from ridgeformer.types import Refusal
from ridgeformer.verification.base import ROUND_OFF, Outcome, Theorem, Verdict

HEADER = ["theorem", "cases", "worst measured/bound", "median", ""]
COLORS = ("#2f5fd0", "#e07b39", "#2a9d8f", "#8e5bd0", "#c23b5a", "#6b7a8f")


def chosen(theorems: Mapping[str, Theorem], only: str | None) -> list[Theorem]:
    if only is None:
        return list(theorems.values())
    if only not in theorems:
        raise Refusal(f"There is no theorem {only!r}: choose from {', '.join(theorems)}.")
    return [theorems[only]]


def verify(
    theorems: Sequence[Theorem],
    out: str | Path,
    *,
    seed: int = 0,
    fast: bool = False,
    console: Console | None = None,
) -> list[Verdict]:
    """Measures every theorem; a violated or vacuous bound is in the verdicts, not an exception."""
    console = console or Console()
    path, numbers = Path(out) / "index.html", Path(out) / "results.json"
    check_page(path)
    check_page(numbers)
    verdicts = [
        Verdict(theorem, theorem.measure(seed, fast))
        for theorem in track(theorems, "verifying", console=console, transient=True)
    ]
    table = RichTable(title=f"Theorems, seed {seed}" + (", fast" if fast else ""))
    for index, cell in enumerate(HEADER):
        table.add_column(cell, justify="right" if index else "left", overflow="fold")
    for verdict in verdicts:
        table.add_row(*row(verdict))
    console.print(table)
    values = {
        "version": __version__,
        "seed": seed,
        "fast": fast,
        "round-off": ROUND_OFF,
        "theorems": [entry(v) for v in verdicts],
    }
    numbers.write_text(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_report(path, verdicts, seed, fast)
    console.print(f"The report: [bold]{path}[/bold]", soft_wrap=True)
    return verdicts


def row(verdict: Verdict) -> list[str]:
    found = verdict.outcome
    return [
        verdict.theorem.name,
        f"{found.ratios.size:,}",
        f"{found.worst:.4g}",
        f"{found.median:.2g}",
        verdict.word,
    ]


def entry(verdict: Verdict) -> dict[str, Any]:
    found, theorem = verdict.outcome, verdict.theorem
    return {
        "name": theorem.name,
        "title": theorem.title,
        "statement": theorem.statement,
        "settings": found.settings,
        "cases": int(found.ratios.size),
        "worst": found.worst,
        "median": found.median,
        "must reach": theorem.attained,
        "verdict": verdict.word,
        "lines": [
            {"name": line.name, "x": list(line.x), "y": list(line.y)} for line in found.lines
        ],
    }


def figure(outcome: Outcome) -> Any:
    names = [line.name for line in outcome.lines if not line.bound]
    drawn = []
    for line in outcome.lines:
        # "a, bound" is drawn in the colour of "a", the longest name that it begins with.
        owners = [n for n in names if f"{line.name},".startswith(f"{n},")]
        owner = names.index(max(owners, key=len)) if owners else len(names)
        color = COLORS[owner % len(COLORS)]
        drawn.append(
            Drawn(
                line.name,
                list(line.x),
                list(line.y),
                color,
                dash="dot" if line.bound else "solid",
                mode="lines" if line.bound else "lines+markers",
            )
        )
    axes = outcome.axes
    positive = [v for line in outcome.lines for v in line.y if v > 0]
    span = log10(max(positive) / min(positive)) if positive else 1.0
    x = Axis(axes.x, log=axes.log_x)
    y = Axis(axes.y, log=axes.log_y, decades=max(1, round(span / 8)))  # not more ticks than fit
    return line_figure([[Plot("", drawn)]], x, y)


def write_report(path: Path, verdicts: Sequence[Verdict], seed: int, fast: bool) -> None:
    held = sum(v.holds for v in verdicts)
    summary = Section(
        f"{held} of {len(verdicts)} hold",
        "Each bound is measured as measured/bound, which must never exceed 1, and must come near it "
        "somewhere, or the bound would say nothing.",
        [Table(HEADER, [row(v) for v in verdicts])],
    )
    sections = [
        Section(
            v.theorem.title,
            f"{v.theorem.statement}<br><b>{v.theorem.see}</b> Measured: {v.outcome.settings}; worst "
            f"ratio {v.outcome.worst:.4g}, median {v.outcome.median:.2g}: {v.word}.",
            [figure(v.outcome)],
        )
        for v in verdicts
    ]
    write_page(
        path,
        "Theorems, measured",
        "Every statement with its constants, on compiled transformers and on the numerics.",
        [summary, *sections],
        f"Seed {seed}{', fast settings' if fast else ''}; float64 unless said otherwise. All numbers are in "
        "<code>results.json</code>.",
    )
