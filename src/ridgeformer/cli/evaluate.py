"""`ridgeformer evaluate`: a model measured on its task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o


def evaluate(
    context: typer.Context,
    model: o.SavedOrShipped,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="A task's name, or a recipe; may be repeated.", metavar="NAME|RECIPE.toml"
        ),
    ] = None,
    prompts: Annotated[
        int | None, typer.Option(help="Prompts per setting; 512, or 32 with --fast, if left out.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Few prompts, which shows little.")] = False,
    seed: o.Seed = 0,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="A baseline, or none; may be repeated; all if left out.", metavar="NAME"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of every iterative baseline; its own number if left out."),
    ] = None,
    device: o.Device = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the page; results/evaluate-MODEL if left out.")
    ] = None,
) -> None:
    """Measure a model on its task: against the best predictor, baselines and shifts; one page, one table.

    Interrupted or killed, the same command goes on where it was.
    """
    from ridgeformer.cli.jobs import plan
    from ridgeformer.experiments import evaluate as run

    named = [] if baseline == ["none"] else baseline
    if prompts is None:
        prompts = 32 if fast else 512
    where = out or Path("results") / f"evaluate-{model.absolute().name}"
    _, store = plan(context, where, None, None, None)
    run(
        model,
        where,
        tasks=task or (),
        prompts=prompts,
        seed=seed,
        baselines=named,
        steps=steps,
        store=store,
        device=device,
    )
