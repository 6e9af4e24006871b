"""`ridgeformer identify`: which solver a model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.jobs import plan


def identify(
    context: typer.Context,
    model: o.SavedOrShipped,
    task: Annotated[
        str | None,
        typer.Option(
            help="A task's name, or a recipe; the model's own if left out.",
            metavar="NAME|RECIPE.toml",
        ),
    ] = None,
    prompts: Annotated[int, typer.Option(help="Prompts that fit, choose and score.")] = 256,
    seed: o.Seed = 0,
    steps: Annotated[
        int | None, typer.Option(help="How often a looped model runs its step.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Limits and error rates; those that are shipped if left out.", metavar="FILE.json"
        ),
    ] = None,
    device: o.Device = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the page; results/identify-MODEL if left out.")
    ] = None,
) -> None:
    """Find which solver a model runs: a verdict with what would change it, and the evidence on one page.

    Interrupted or killed, the same command goes on where it was.
    """
    from ridgeformer.experiments import identify_model

    out = out or Path("results") / f"identify-{model.absolute().name}"
    _, store = plan(context, out, None, None, out / "tasks")
    identify_model(
        model,
        out,
        task=task,
        prompts=prompts,
        seed=seed,
        calibration=calibration,
        steps=steps,
        device=device,
        store=store,
    )
