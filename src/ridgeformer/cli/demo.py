"""`ridgeformer demo`: the first thing to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the page.")] = Path("results/demo"),
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
) -> None:
    """Compile a solver, run it beside the textbook, the closed form and the theorem, and draw it."""
    from ridgeformer.experiments import demo as run

    run(out, seed)
