"""`ridgeformer study`: one question, one page."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.jobs import plan


def study(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Leave out for a list.", metavar="NAME")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the page; results/NAME if left out.")
    ] = None,
    seed: o.Seed = 0,
    prompts: Annotated[int | None, typer.Option(help="Prompts per setting.")] = None,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Few prompts, which shows little; `--prompts` says how many."),
    ] = False,
    workers: o.Workers = None,
    scheduler: o.Scheduler = None,
    store: o.StoreDirectory = None,
) -> None:
    """Measure one question and write one page and its numbers; without a name, list the studies."""
    from ridgeformer.experiments import STUDIES, run_study

    if name is None:
        width = max(map(len, STUDIES)) + 1
        for known in STUDIES.values():
            heading, indent = f"{known.name:{width}}", " " * width
            typer.echo(fill(known.summary, 80, initial_indent=heading, subsequent_indent=indent))
        return
    chosen, out = STUDIES.find(name), out or Path("results") / name
    where, kept = plan(context, out, workers, scheduler, store)
    if fast and prompts is None:
        prompts = chosen.few
    run_study(chosen, out, seed, prompts, where=where, store=kept)
