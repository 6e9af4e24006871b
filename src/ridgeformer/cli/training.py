"""Commands around trained models."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ridgeformer.training import Recipe


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe in TOML.", metavar="RECIPE.toml")],
    out: Annotated[Path, typer.Option(help="Directory of the run: log, checkpoints, model.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="In place of the recipe's seed.", min=0)] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; all if left out.")] = None,
) -> None:
    """Train a transformer on in-context regression; the model is saved in OUT/model.

    Under torchrun the processes share every batch: torchrun --nproc-per-node 2 -m ridgeformer.cli
    train RECIPE.toml --out DIR
    """
    from dataclasses import replace

    from ridgeformer.training import Recipe

    chosen = Recipe.load(recipe)
    run_recipe(chosen if seed is None else replace(chosen, seed=seed), out, resume, threads)


def run_recipe(recipe: Recipe, out: Path, resume: bool, threads: int | None) -> None:
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
    from ridgeformer.types import Refusal

    if threads is not None:
        if threads < 1:
            raise Refusal(f"--threads must be at least 1, got {threads}.")
        torch.set_num_threads(threads)
    group = Group.join()
    console = Console(quiet=not group.first)
    try:
        run = started(recipe, out, resume, console.print, group)
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
                    ratio = seen["mse"] / seen["best"]
                    text = f"excess {seen.get('excess', nan):.4f}, error {ratio:.3f} × the best"
                    progress.update(bar, seen=text)

            run.train(report)
        if group.first:
            model = finish(run)
            for name, score in named_scores(model.scores):
                console.print(f"{name}: excess risk {shown(score)}", highlight=False)
            console.print(f"The model: [bold]{out / 'model'}[/bold]", soft_wrap=True)
    finally:
        group.leave()


def named_scores(scores: dict[str, Any]) -> list[tuple[str, dict[str, float | None]]]:
    by_supports = [(f"{k} supports", score) for k, score in scores["by supports"].items()]
    return by_supports + list(scores.get("by part", {}).items())


def shown(score: dict[str, float | None]) -> str:
    if score["excess"] is None:
        return "not defined"
    return f"{score['excess']:.4f} [{score['low']:.4f}, {score['high']:.4f}]"


zoo = typer.Typer(
    help="Trained models that are shipped with the package; without a command, list them.",
    invoke_without_command=True,
    no_args_is_help=False,
)


def list_models(context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from ridgeformer.models import zoo as shipped
    from ridgeformer.training.final import FEWER

    if not shipped.names():
        typer.echo(
            "No model is shipped yet: train one with `ridgeformer train RECIPE.toml --out DIR`."
        )
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)  # a file or a pipe has no edge
    table = Table(
        title="Shipped models, with excess risk by number of supports",
        box=SIMPLE_HEAD,
        title_justify="left",
    )
    for column in ("name", "task", "tokens", "attention"):
        table.add_column(column, no_wrap=column == "name")
    for column in ("size", "seed", "CPU min", *map(str, FEWER), "all"):
        table.add_column(column, justify="right", no_wrap=column == "all")
    for name in shipped.names():
        model = shipped.load(name)
        recipe, config, scores = model.recipe, model.transformer.config, model.scores
        by_supports = scores["by supports"]
        fewer = [by_supports.get(str(n), {}).get("excess") for n in FEWER]
        table.add_row(
            name, recipe.task.name, recipe.model.layout, config.attention,
            f"{config.n_layers} × {config.d_model}", str(recipe.seed), f"{scores['cpu minutes']:g}",
            *("" if value is None else f"{value:.4f}" for value in fewer),
            shown(by_supports[str(recipe.task.supports)]),
        )  # fmt: skip
    console.print(table)
    console.print(
        "size: layers × width. Excess risk: 0 for the best predictor, 1 for the mean. Recipe and all scores: ridgeformer inspect $(ridgeformer zoo path NAME)",
        soft_wrap=True,
        highlight=False,
    )


def model_path(
    name: Annotated[str, typer.Argument(help="A shipped model.", metavar="NAME")],
) -> None:
    """Print the directory of a shipped model, for predict, inspect and evaluate."""
    from ridgeformer.models import zoo as shipped

    typer.echo(shipped.path_of(name))


def rebuild(
    name: Annotated[str, typer.Argument(help="A shipped model.", metavar="NAME")],
    out: Annotated[Path, typer.Option(help="Directory of the run.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from a checkpoint.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; as many as it was trained with if left out.")
    ] = None,
) -> None:
    """Train a shipped model again from its recipe, and compare the weights."""
    from ridgeformer.models import zoo as shipped
    from ridgeformer.training import TrainedModel

    model = shipped.load(name)
    run_recipe(
        model.recipe, out, resume, model.scores.get("threads") if threads is None else threads
    )
    apart = shipped.distance(model, TrainedModel.load(out / "model"))
    same = "the same, bit for bit" if apart == 0 else f"up to {apart:.1e} apart (another machine?)"
    typer.echo(f"The weights and those that are shipped are {same}.")
