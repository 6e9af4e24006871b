"""The page of `verify`: a table, and for each theorem its statement, numbers and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ridgeformer.experiments.finding import Figure, Finding, Page, Paragraph, Section, Table
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.theorems.base import ASKED, REACHED

PROSE = Prose("verify")
HEADER = ["theorem", "settings", "cases", "worst measured / bound", "loosest part", "holds"]


def row(finding: Finding) -> list[str]:
    cases, worst, _, loosest = values(finding)
    word = "yes" if finding.holds else finding.verdict
    settings = finding.settings["settings"]
    return [finding.name, settings, f"{cases:,.0f}", f"{worst:.4g}", f"{loosest:.2g}", word]


def summary(findings: Sequence[Finding]) -> Table:
    """One row for each theorem, which leads to its section."""
    return Table(HEADER, [row(f) for f in findings], words=2, linked=True)


def values(finding: Finding) -> list[float]:
    return [finding.get(m, finding.name).value for m in VALUES]


VALUES = ("cases", "worst", "median", "loosest")


def parts_of(finding: Finding) -> list[dict[str, Any]]:
    """Every line, step and term of the bound, what it reaches and what it must reach."""
    reached, asked = (finding.select(m, finding.name) for m in (REACHED, ASKED))
    return [
        {"name": r.setting["part"], REACHED: r.mean, "must reach": a.mean}
        for r, a in zip(reached, asked, strict=True)
    ]


def shortfalls(finding: Finding) -> list[str]:
    """The parts that do not reach what they must, in words, the loosest first."""
    missed = [part for part in parts_of(finding) if part[REACHED] < part["must reach"]]
    return [
        f"{part['name']} reaches {part[REACHED]:.2g} of its bound and must reach {part['must reach']:.2g}"
        for part in sorted(missed, key=lambda part: float(part[REACHED] / part["must reach"]))
    ]


def verify_page(findings: Sequence[Finding], seed: int, fast: bool) -> Page:
    table, held = summary(findings), sum(f.holds for f in findings)
    first = PROSE.section("summary", table, held=held, count=len(findings))
    sections = [replace(first, anchor="summary"), *(section(f) for f in findings)]
    terminal = {f"Theorems, seed {seed}{', fast' if fast else ''}": table}
    return PROSE.page(sections, Finding("verify", seed, 0), terminal, fast=fast)


def section(finding: Finding) -> Section:
    cases, worst, median, _ = values(finding)
    words = {"verdict": finding.verdict, "settings": finding.settings["settings"]}
    parts, loosest = parts_of(finding), finding.settings["loosest"]
    judged = [part for part in parts if part["must reach"]]
    text = PROSE.text(
        "numbers",
        cases=cases,
        worst=worst,
        median=median,
        parts=len(judged),
        loosest=next(part for part in parts if part["name"] == loosest),
        **words,
    )
    return finding.section(Paragraph(text, "soft"))


def entry(finding: Finding) -> dict[str, Any]:
    """What `results.json` says of one theorem."""
    numbers = {n.measure: n.mean for n in finding.numbers if not n.setting}
    lines = [line for f in finding.figures if isinstance(f, Figure) for line in f.lines]
    return {
        "name": finding.name,
        "title": finding.title,
        "statement": finding.statement,
        "settings": finding.settings["settings"],
        **numbers,
        "verdict": finding.verdict,
        "parts": parts_of(finding),
        "lines": [
            {"name": line.name, "x": list(line.x), "y": list(line.y)}
            | ({} if line.low is None else {"low": line.low, "high": line.high})
            for line in lines
        ],
    }
