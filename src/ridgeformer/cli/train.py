"""`ridgeformer train`: a transformer trained from a recipe."""

from __future__ import annotations

import shlex
import sys
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import files, interruption
from ridgeformer.cli import options as o

if TYPE_CHECKING:
    from ridgeformer.training import Group, Recipe, Run


MOST_THREADS = 1024
"""For far more, OpenMP ends the process without a word of Python's."""


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe in TOML, or the name of a shipped one. Leave out for a list.",
            metavar="NAME|RECIPE.toml",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the run: log, checkpoints, model; runs/RECIPE if left out."
        ),
    ] = None,
    resume: o.Resume = False,
    seed: Annotated[int | None, typer.Option(help="In place of the recipe's seed.", min=0)] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; all if left out.")] = None,
    device: o.Device = "cpu",
) -> None:
    """Train a transformer on in-context regression; the model is saved in OUT/model. Without a recipe, list the shipped.

    Ctrl-C saves a checkpoint after the step that runs, and says how to go on.

    Under torchrun the processes share every batch: torchrun --nproc-per-node 2 -m ridgeformer.cli
    train RECIPE.toml --out DIR
    """
    from dataclasses import replace

    from ridgeformer.training import recipes

    if recipe is None:
        list_recipes()
        return
    chosen, out = recipes.load(recipe), out or Path("runs") / Path(recipe).stem
    run_recipe(chosen if seed is None else replace(chosen, seed=seed), out, resume, threads, device)


def list_recipes() -> None:
    """Names and sizes of the shipped recipes, and where their files are."""
    from ridgeformer.training import Recipe, recipes

    shipped = {name: Recipe.load(path) for name, path in recipes.files().items()}
    width = max(map(len, shipped))
    for name, recipe in shipped.items():
        shape, steps = recipe.model, recipe.training.steps
        typer.echo(
            f"{name:{width}} {recipe.task.name}, {shape.layout}, {shape.n_layers} × {shape.d_model}, "
            f"{steps:,} steps"
        )
    typer.echo(f"Copy one from {recipes.FOLDER} to change it.")


def run_recipe(
    recipe: Recipe, out: Path, resume: bool, threads: int | None, device: str = "cpu"
) -> None:
    """Train with a progress bar, save, and print the scores."""
    import torch
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from ridgeformer.training import Group, finish, started
    from ridgeformer.transformer import device_named
    from ridgeformer.types import Interrupted, Refusal

    if threads is not None:
        if not 1 <= threads <= MOST_THREADS:
            raise Refusal(
                f"--threads must be at least 1 and at most {MOST_THREADS:,}, got {threads}."
            )
        torch.set_num_threads(threads)
    group = Group.join()
    console = Console(quiet=not group.first)
    run: Run | None = None
    try:
        run = started(recipe, out, resume, console.print, group, device_named(device))
        columns = (
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[seen]}"),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(
                recipe.name, total=recipe.training.steps, seen="", completed=run.step
            )

            def report(step: int, seen: dict[str, float]) -> None:
                progress.update(bar, completed=step)
                if seen:
                    progress.update(bar, seen=error_line(seen))

            # A step that has begun is ended, since half of it cannot be saved.
            with interruption.waiting() as stop:
                done = run.train(report, stop)
        if not done:
            raise KeyboardInterrupt
        if group.first:
            with files.busy("measuring the model's scores"):
                model = finish(run)
            for name, score in named_scores(model.scores):
                console.print(f"{name}: excess risk {shown(score)}", highlight=False)
            console.print(f"The model: [bold]{out / 'model'}[/bold]", soft_wrap=True)
    except KeyboardInterrupt:
        raise Interrupted(how_to_go_on(run, out, group)) from None
    finally:
        group.leave()


def how_to_go_on(run: Run | None, out: Path, group: Group) -> str:
    """What an interrupted run has saved, and the command that goes on."""
    from ridgeformer.training import checkpoint

    if next(checkpoint.newest_first(out), None) is None:
        return "no step was taken; run the same command again."
    command = "The same command with --resume goes on."
    if group.size == 1:
        words = [word for word in sys.argv[1:] if word != "--resume"]
        command = f"To go on:\n  {shlex.join(['ridgeformer', *words, '--resume'])}"
    if run is None or run.saved is None:
        return f"no step was taken. {command}"
    return f"step {run.saved:,} of {run.recipe.training.steps:,} is saved. {command}"


def error_line(seen: dict[str, float]) -> str:
    """The excess risk and the error; the error as a multiple of the best one, unless that is only round-off."""
    excess = f"excess {seen.get('excess', nan):.4f}"
    if seen["best"] < 1e-12 * max(seen["mse"], 1e-12):
        return f"{excess}, error {seen['mse']:.2e}"
    return f"{excess}, error {seen['mse'] / seen['best']:.3f} × the best"


def named_scores(scores: dict[str, Any]) -> list[tuple[str, dict[str, float | None]]]:
    by_supports = [(f"{k} supports", score) for k, score in scores["by supports"].items()]
    return by_supports + list(scores.get("by part", {}).items())


def shown(score: dict[str, float | None]) -> str:
    if score["excess"] is None:
        return "not defined"
    return f"{score['excess']:.4f} [{score['low']:.4f}, {score['high']:.4f}]"
