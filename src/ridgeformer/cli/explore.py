"""`ridgeformer explore`: a page in which saved models run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def explore(
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path(
        "results/explorer.html"
    ),
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, if there is one.")
    ] = True,
) -> None:
    """Write the explorer, one HTML file in which compiled and trained models run, and open it.

    The file needs no server and no network. Its address, with what comes after #, keeps what is shown.
    """
    from rich.console import Console

    from ridgeformer.experiments.explorer import build
    from ridgeformer.experiments.run import check_writable
    from ridgeformer.whole import write_whole

    check_writable(out)
    with Console(stderr=True).status("compiling the models that the page shows"):
        page = build.page()
    write_whole(out, page.encode())
    typer.echo(f"The page: {out}")
    if show and not (has_display() and opened(out)):
        typer.echo("No browser could be started here: open the file in one.")


def has_display() -> bool:
    """Whether a window can be shown; without one, a browser for terminals might be started instead."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def opened(path: Path) -> bool:
    import webbrowser

    return webbrowser.open(path.absolute().as_uri())
