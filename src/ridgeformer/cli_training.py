"""Commands around trained models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe in TOML.", metavar="RECIPE.toml")],
    out: Annotated[Path, typer.Option(help="Directory of the run: log, checkpoints, model.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="CPU threads; all if left out.")] = None,
) -> None:
    """Train a transformer on in-context regression; the model is saved in OUT/model.

    Under torchrun the processes share every batch: torchrun --nproc-per-node 2 -m ridgeformer.cli
    train RECIPE.toml --out DIR
    """
    import torch
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from ridgeformer.training import Group, Recipe, finish, started
    from ridgeformer.types import Refusal

    if threads is not None:
        if threads < 1:
            raise Refusal(f"--threads must be at least 1, got {threads}.")
        torch.set_num_threads(threads)
    read, group = Recipe.load(recipe), Group.join()
    console = Console(quiet=not group.first)
    try:
        run = started(read, out, resume, console.print, group)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[seen]}"),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(
                read.name, total=read.training.steps, seen="", completed=run.step
            )

            def report(step: int, seen: dict[str, float]) -> None:
                progress.update(bar, completed=step)
                if seen:
                    ratio = seen["mse"] / seen["best"]
                    text = f"excess {seen['excess']:.4f}, error {ratio:.3f} × the best"
                    progress.update(bar, seen=text)

            run.train(report)
        if group.first:
            model = finish(run)
            for supports, score in model.scores["by supports"].items():
                console.print(
                    f"{supports} supports: excess risk {score['excess']:.4f} "
                    f"[{score['low']:.4f}, {score['high']:.4f}]",
                    highlight=False,
                )
            console.print(f"The model: [bold]{out / 'model'}[/bold]", soft_wrap=True)
    finally:
        group.leave()
