"""Runs theorems, prints one table, and writes the page and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from ridgeformer import __version__
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.jobs import HERE, Result, Store, Where, code, going_on, run_all
from ridgeformer.experiments.plain import from_plain, to_plain
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.experiments.theorems.base import ROUND_OFF, Outcome, Theorem, Verdict
from ridgeformer.experiments.theorems.page import entry, verify_page
from ridgeformer.experiments.timing import slowness
from ridgeformer.registry import Registry
from ridgeformer.transformer.threads import one_thread_each

SECONDS = {True: 45.0, False: 180.0}
"""CPU seconds that all theorems take, fast or not, with the machine of `timing.UNIT`."""


def chosen(theorems: Registry[Theorem], only: Sequence[str] = ()) -> list[Theorem]:
    """Those of the given names, in the order of the registry; all of them if no name is given."""
    named = [theorems.find(name) for name in only]
    return [theorem for theorem in theorems.values() if theorem in named or not named]


@dataclass(frozen=True)
class TheoremTask:
    """The measuring of one registered theorem. Its statement and verdict are added by whoever asked."""

    theorem: str
    seed: int
    fast: bool

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    def run(self) -> Result:
        outcome = Theorem.registry.find(self.theorem).measure(self.seed, self.fast)
        return {part.name: to_plain(getattr(outcome, part.name)) for part in fields(outcome)}


def verify(
    theorems: Sequence[Theorem],
    out: str | Path,
    *,
    seed: int = 0,
    fast: bool = False,
    console: Console | None = None,
    where: Where = HERE,
    store: Store | None = None,
) -> list[Finding]:
    """Measures every theorem; a violated or vacuous bound is in the findings, not an exception.

    With a store, or elsewhere than here, each theorem is a task whose result is kept: in `store`, or in
    the directory `tasks` of `out`.
    """
    check_seed(seed, below=32)
    run = Run(out, "results.json", console)
    if where is not HERE and store is None:
        store = Store(Path(out) / "tasks", code())
    if where is HERE and len(theorems) == len(Theorem.registry.members):
        run.say_how_long(
            SECONDS[fast] * slowness(), f"Measuring {len(theorems)} statements",
            "" if fast else "The fast form, or one statement alone, takes less.",
        )  # fmt: skip
    with going_on(store):
        if store is None:
            # Two threads gain little on many small problems, and where other processes want the same cores
            # they wait for each other most of the time.
            with one_thread_each:
                findings = [t.verify(seed, fast) for t in run.track(theorems, "verifying")]
        else:
            tasks = [TheoremTask(Theorem.registry.registered(t).name, seed, fast) for t in theorems]
            measured = run_all(tasks, store, where, partial(run.track, doing="verifying"))
            findings = [
                Verdict(t, Outcome(**{k: from_plain(v) for k, v in result.items()})).finding(seed)
                for t, result in zip(theorems, measured, strict=True)
            ]
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
