"""What the parts of the page of a language model share."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import plain, spread

PROSE = Prose("language_model")
ACROSS = 2
"""Panels beside each other."""
BEYOND = 2.0
"""λ = ∞ is drawn at so many times the largest finite one."""


def panels(found: Sequence[f.Panel]) -> list[list[f.Panel]]:
    """Panels in rows; every row is full."""
    if len(found) % ACROSS and len(found) > 1:
        return [[panel] for panel in found]
    across = min(ACROSS, len(found))
    return [list(found[i : i + across]) for i in range(0, len(found), across)]


def rows_of(finding: f.Finding, measure: str, methods: Sequence[str]) -> list[list[str]]:
    """One row for each method, and one column for each task with words."""
    return [
        [name, *(spread(finding.get(measure, name, task=task)) for task in finding.settings["words"])]
        for name in methods
    ]  # fmt: skip


def methods_of(finding: f.Finding, measure: str) -> list[str]:
    return list(dict.fromkeys(n.method for n in finding.select_all(measure)))


def number(value: float | str) -> str:
    """A number that JSON may hold as a word."""
    value = float(value)
    return "∞" if value == inf else plain(value)
