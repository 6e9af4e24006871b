"""The command line, assembled from its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer import __version__
from ridgeformer.cli import compile, export, import_, lm, prompts, solve, suite, zoo
from ridgeformer.cli.calibrate import calibrate
from ridgeformer.cli.commands import Commands, register, register_with_options
from ridgeformer.cli.demo import demo
from ridgeformer.cli.evaluate import evaluate
from ridgeformer.cli.explore import explore
from ridgeformer.cli.identify import identify
from ridgeformer.cli.inspect import inspect
from ridgeformer.cli.predict import predict
from ridgeformer.cli.study import study
from ridgeformer.cli.train import train
from ridgeformer.cli.verify import verify

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Solvers compiled to transformers: kernel ridge regression in a forward pass.",
)
register_with_options(app, compile.compile, compile.options)
register_with_options(app, prompts.prompts, prompts.options)
register(app, predict)
register_with_options(app, solve.solve, solve.options)
register_with_options(app, export.export, export.options)
register_with_options(app, import_.import_, import_.options, "import")
for command in (inspect, evaluate, identify, calibrate, demo, explore, study, verify, train):
    register(app, command)
app.add_typer(zoo.app, name="zoo")
app.add_typer(lm.app, name="lm")
app.add_typer(suite.app, name="suite")


def version(show: bool) -> None:
    if show:
        typer.echo(f"ridgeformer {__version__}")
        raise typer.Exit


@app.callback()
def main(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            help="Run a Python file first that registers solvers, kernels, theorems, …; may be repeated.",
            metavar="FILE.py",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass
