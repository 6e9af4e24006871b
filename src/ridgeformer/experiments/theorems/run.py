"""Runs theorems, prints one table, and writes the page and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ridgeformer import __version__
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.run import Run
from ridgeformer.experiments.theorems.base import ROUND_OFF, Theorem
from ridgeformer.experiments.theorems.page import entry, verify_page
from ridgeformer.registry import Registry
from ridgeformer.transformer.threads import one_thread_each


def chosen(theorems: Registry[Theorem], only: Sequence[str] = ()) -> list[Theorem]:
    """Those of the given names, in the order of the registry; all of them if no name is given."""
    named = [theorems.find(name) for name in only]
    return [theorem for theorem in theorems.values() if theorem in named or not named]


def verify(
    theorems: Sequence[Theorem],
    out: str | Path,
    *,
    seed: int = 0,
    fast: bool = False,
    console: Console | None = None,
) -> list[Finding]:
    """Measures every theorem; a violated or vacuous bound is in the findings, not an exception."""
    run = Run(out, "results.json", console)
    # Two threads gain little on many small problems, and where other processes want the same cores they
    # wait for each other most of the time.
    with one_thread_each:
        findings = [theorem.verify(seed, fast) for theorem in run.track(theorems, "verifying")]
    page = verify_page(findings, seed, fast)
    run.show(page.terminal)
    run.write(page, results(findings, seed, fast))
    return findings


def results(findings: Sequence[Finding], seed: int, fast: bool) -> dict[str, Any]:
    """What `results.json` holds."""
    return {
        "version": __version__,
        "seed": seed,
        "fast": fast,
        "round-off": ROUND_OFF,
        "theorems": [entry(finding) for finding in findings],
    }
