"""Runs theorems, prints one table, and writes the report and its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table as RichTable

from ridgeformer import __version__
from ridgeformer.experiments.report import check_page
from ridgeformer.experiments.theorems.base import ROUND_OFF, Theorem, Verdict
from ridgeformer.experiments.theorems.page import HEADER, row, write_report
from ridgeformer.types import Refusal


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
    console.print(summary(verdicts, f"Theorems, seed {seed}" + (", fast" if fast else "")))
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


def summary(verdicts: Sequence[Verdict], title: str) -> RichTable:
    """Readable in 80 columns: settings are folded, and names, by which one is chosen, are whole."""
    table = RichTable(
        title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, row_styles=["", "dim"]
    )
    for index, cell in enumerate(HEADER):
        words = index < 2
        table.add_column(
            cell.replace(" ", "\n").replace("/", "\n/"),
            justify="left" if words else "right",
            overflow="fold",
            no_wrap=index == 0,
        )
    for verdict in verdicts:
        table.add_row(*row(verdict))
    return table


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
            {"name": line.name, "x": list(line.x), "y": list(line.y)}
            | ({} if line.low is None else {"low": line.low, "high": line.high})
            for line in found.lines
        ],
    }
