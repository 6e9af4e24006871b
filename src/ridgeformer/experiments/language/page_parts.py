"""What the parts of the page of a language model share."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.wording import spread

ACROSS = 2
"""Panels beside each other."""


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
