"""The page of `verify`: a table, and for each theorem its statement, numbers and figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeformer.experiments.finding import Figure, Finding, Page, Paragraph, Section, Table

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
    table = summary(findings)
    first = Section(
        f"{sum(f.holds for f in findings)} of {len(findings)} theorems hold",
        [
            Paragraph(
                "Each case is measured as measured/bound. This ratio must never exceed 1, and it must "
                "come near 1 somewhere, since otherwise the bound would say nothing. Each name leads to "
                "the statement and its figure."
            ),
            table,
        ],
        anchor="summary",
    )
    how = ", fast" if fast else ""
    return Page(
        "Theorems, measured",
        "Every statement is given with its constants and measured on compiled transformers and on "
        "the solvers themselves.",
        [first, *(section(f) for f in findings)],
        f"The seed is {seed}{', with fast settings' if fast else ''}; everything runs in float64 unless "
        "a theorem says otherwise. All numbers are in <code>results.json</code>.",
        {f"Theorems, seed {seed}{how}": table},
    )


def section(finding: Finding) -> Section:
    cases, worst, median = values(finding)
    return finding.section(
        Paragraph(
            f"<b>{finding.verdict}</b>: the worst measured/bound is {worst:.4g} and the median is "
            f"{median:.2g} over {cases:,.0f} cases ({finding.settings['settings']}). "
            '<a href="#summary">All theorems</a>',
            "soft",
        )
    )


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
