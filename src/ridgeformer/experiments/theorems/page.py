"""The page of `verify`: a table, and for each theorem its statement, numbers and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ridgeformer.experiments.finding import Figure, Finding, Page, Paragraph, Section, Table
from ridgeformer.experiments.page import Prose

PROSE = Prose("verify")
HEADER = ["theorem", "settings", "cases", "worst measured/bound", "median", "holds"]


def row(finding: Finding) -> list[str]:
    cases, worst, median = values(finding)
    word = "yes" if finding.holds else finding.verdict
    settings = finding.settings["settings"]
    return [finding.name, settings, f"{cases:,.0f}", f"{worst:.4g}", f"{median:.2g}", word]


def summary(findings: Sequence[Finding]) -> Table:
    """One row for each theorem, which leads to its section."""
    return Table(HEADER, [row(f) for f in findings], words=2, linked=True)


def values(finding: Finding) -> list[float]:
    return [finding.get(m, finding.name).value for m in ("cases", "worst", "median")]


def verify_page(findings: Sequence[Finding], seed: int, fast: bool) -> Page:
    table, held = summary(findings), sum(f.holds for f in findings)
    first = PROSE.section("summary", table, held=held, count=len(findings))
    sections = [replace(first, anchor="summary"), *(section(f) for f in findings)]
    terminal = {f"Theorems, seed {seed}{', fast' if fast else ''}": table}
    return PROSE.page(sections, Finding("verify", seed, 0), terminal, fast=fast)


def section(finding: Finding) -> Section:
    cases, worst, median = values(finding)
    words = {"verdict": finding.verdict, "settings": finding.settings["settings"]}
    text = PROSE.text("numbers", cases=cases, worst=worst, median=median, **words)
    return finding.section(Paragraph(text, "soft"))


def entry(finding: Finding) -> dict[str, Any]:
    """What `results.json` says of one theorem."""
    numbers = {n.measure: n.mean for n in finding.numbers}
    lines = [line for f in finding.figures if isinstance(f, Figure) for line in f.lines]
    return {
        "name": finding.name,
        "title": finding.title,
        "statement": finding.statement,
        "settings": finding.settings["settings"],
        **numbers,
        "verdict": finding.verdict,
        "lines": [
            {"name": line.name, "x": list(line.x), "y": list(line.y)}
            | ({} if line.low is None else {"low": line.low, "high": line.high})
            for line in lines
        ],
    }
