"""`ridgeformer calibrate`: how far verdicts can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.jobs import plan


def calibrate(
    context: typer.Context,
    fast: Annotated[
        bool, typer.Option("--fast", help="One model of each kind, which shows little.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Directory of calibration.json and of the page.")
    ] = Path("results/calibrate"),
    seed: Annotated[int, typer.Option(help="Seed of the models and their prompts.")] = 3,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Keep what is found of every model there, and skip what is there; OUT/tasks if left out."
        ),
    ] = None,
) -> None:
    """Choose the limits of identify on compiled models whose answer is known, and measure its errors on others.

    Interrupted or killed, the same command goes on where it was.
    """
    from ridgeformer.experiments import calibrate as run

    where, kept = plan(context, out, workers, scheduler, store or out / "tasks")
    run(out, seed=seed, fast=fast, where=where, store=kept)
