"""Files of the commands: checks before work, prompts in batches, matrices, and results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from ridgeformer.tasks import Prompt


def check_output(out: Path, prompts: Path | None = None) -> None:
    """Refuses a result that cannot be written, or that would replace the prompts that it is made from."""
    from ridgeformer.types import Refusal
    from ridgeformer.whole import replaceable

    if replaceable(out).is_dir():
        raise Refusal(f"{out} is a directory: name a file for the result.")
    if prompts is not None and out.exists() and prompts.exists() and out.samefile(prompts):
        raise Refusal(f"--out {out} is the prompt file itself: choose another name.")
    if not out.absolute().parent.is_dir():
        raise Refusal(f"{out} cannot be written: its directory does not exist.")


def batches(prompt: Prompt, what: str, cost: int | None = None) -> Iterator[Prompt]:
    """The prompts in parts of bounded memory, under a progress bar; `cost` is tokens per prompt."""
    from rich.console import Console

    from ridgeformer.experiments.run import timed_bars

    size = max(1, 2**17 // (cost or prompt.supports + 1 + prompt.phi_query.shape[1]))
    starts = range(0, len(prompt), size)
    with timed_bars(Console(file=sys.stderr, quiet=not sys.stderr.isatty())) as progress:
        for start in progress.track(starts, description=what):
            yield prompt[start : start + size]


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A bar that goes back and forth with the time so far, for work that does not say how far it is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, quiet=not sys.stderr.isatty())
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def write(out: Path, predictions: Any, trajectory: bool, supports: int | None = None) -> None:
    """Writes predictions [T+1,B,q,r]; with `supports`, they are at so many x first, then at the queries."""
    from ridgeformer.tasks import write_arrays

    parts = {"": predictions[:, :, supports or 0 :]}
    if supports is not None:
        parts["prefix_"] = predictions[:, :, : supports + 1]
    arrays = {f"{part}prediction": found[-1].numpy() for part, found in parts.items()}
    if trajectory:
        arrays |= {f"{part}trajectory": found.numpy() for part, found in parts.items()}
    write_arrays(out, **arrays)
    typer.echo(f"{out}: " + ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items()) + ".")


def read_matrix(path: Path) -> Tensor:
    """A matrix from an .npy file."""
    import numpy as np
    import torch

    from ridgeformer.tasks import read_npy
    from ridgeformer.types import Refusal

    matrix = read_npy(path, "it must hold one real matrix U [m, p]")
    if matrix.ndim != 2:
        raise Refusal(
            f"{path} must hold one real matrix U [m, p]; its shape is {list(matrix.shape)}."
        )
    if matrix.size == 0 or not np.isfinite(matrix).all():
        raise Refusal(f"{path} must hold finite numbers, at least one.")
    return torch.from_numpy(matrix.astype(float))
