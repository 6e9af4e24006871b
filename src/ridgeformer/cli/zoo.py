"""`ridgeformer zoo`: trained models that are shipped with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.commands import register
from ridgeformer.cli.train import run_recipe

app = typer.Typer(
    help="Trained models that are shipped with the package; without a command, list them.",
    invoke_without_command=True,
    no_args_is_help=False,
)


@app.callback()
def list_models(context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from ridgeformer.models import zoo as shipped
    from ridgeformer.training.final import FEWER

    if not shipped.names():
        typer.echo("No model is shipped yet: train one with `ridgeformer train RECIPE --out DIR`.")
        return
    console = Console()
    table = Table(
        title="Shipped models, with excess risk by number of supports",
        box=SIMPLE_HEAD,
        title_justify="left",
        padding=0,
        show_edge=False,
    )
    for column in ("name", "task", "attention"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for column in ("size", "CPU\nmin", *map(str, FEWER), "all"):
        table.add_column(column, overflow="fold", justify="right")
    for name in shipped.names():
        model = shipped.load(name)
        recipe, config, scores = model.recipe, model.transformer.config, model.scores
        by_supports = scores["by supports"]
        sizes = (*FEWER, recipe.task.supports)
        excess = [by_supports.get(str(n), {}).get("excess") for n in sizes]
        table.add_row(
            name, recipe.task.name, config.attention,
            f"{config.n_layers} × {config.d_model}", f"{scores['cpu minutes']:g}",
            *("" if value is None else f"{value:.4f}" for value in excess),
        )  # fmt: skip
    console.print(table)
    console.print(
        "size: layers × width. Excess risk: 0 for the best predictor, 1 for the mean.\n"
        "Recipe and all scores: ridgeformer inspect NAME",
        highlight=False,
    )


def path(name: o.ShippedModel) -> None:
    """Print the directory of a shipped model, for Python and other programs."""
    from ridgeformer.models import zoo as shipped

    typer.echo(shipped.path_of(name))


def rebuild(
    name: o.ShippedModel,
    out: Annotated[Path, typer.Option(help="Directory of the run.")],
    resume: o.Resume = False,
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


register(app, path)
register(app, rebuild)
