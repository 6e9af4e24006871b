"""`ridgeformer verify`: the theorems, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.jobs import plan


def verify(
    context: typer.Context,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer prompts and steps.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A theorem, by name; may be given several times.", metavar="NAME"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the report.")] = Path("results/verify"),
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    store: o.StoreDirectory = None,
) -> None:
    """Measure every theorem as measured/bound, and draw it; exit 1 if one does not hold."""
    from ridgeformer.experiments import THEOREMS, chosen
    from ridgeformer.experiments import verify as run
    from ridgeformer.experiments.theorems.page import shortfalls

    where, kept = plan(context, out, workers, scheduler, store)
    theorems = chosen(THEOREMS, only or [])
    findings = run(theorems, out, seed=seed, fast=fast, where=where, store=kept)
    failed = [finding.name for finding in findings if not finding.holds]
    if failed:
        typer.echo(f"Does not hold: {', '.join(failed)}.", err=True)
        for finding in findings:
            said = shortfalls(finding)
            more = f" {len(said) - 1} other parts miss theirs, too." if len(said) > 1 else ""
            if said:
                typer.echo(f"{finding.name}: {said[0]}.{more}", err=True)
        raise typer.Exit(1)
