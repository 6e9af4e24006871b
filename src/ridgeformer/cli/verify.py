"""`ridgeformer verify`: the theorems, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(
    fast: Annotated[bool, typer.Option("--fast", help="Fewer prompts and steps.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A theorem, by name; may be given several times.", metavar="NAME"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the report.")] = Path("results/verify"),
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
) -> None:
    """Measure every theorem as measured/bound, and draw it; exit 1 if one does not hold."""
    from ridgeformer.experiments import THEOREMS, chosen
    from ridgeformer.experiments import verify as run

    findings = run(chosen(THEOREMS, only or []), out, seed=seed, fast=fast)
    failed = [finding.name for finding in findings if not finding.holds]
    if failed:
        typer.echo(f"Does not hold: {', '.join(failed)}.", err=True)
        raise typer.Exit(1)
