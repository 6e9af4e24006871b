"""`ridgeformer identify`: which solver a model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o


def identify(
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
    out: Annotated[
        Path | None, typer.Option(help="Directory of the page; results/identify-MODEL if left out.")
    ] = None,
) -> None:
    """Find which solver a model runs: a verdict with what would change it, and the evidence on one page."""
    from ridgeformer.experiments import identify_model

    identify_model(
        model,
        out or Path("results") / f"identify-{model.absolute().name}",
        task=task,
        prompts=prompts,
        seed=seed,
        calibration=calibration,
        steps=steps,
    )
