"""`ridgeformer export`: a saved model in the format of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ridgeformer.cli import options as o


def export(
    model: o.Model,
    out: Annotated[Path, typer.Option(help="Directory for the checkpoint.")],
    to: Annotated[Literal["gpt2"], typer.Option(help="The class to export to.")] = "gpt2",
    positions: Annotated[int, typer.Option(help="Most tokens that a prompt may have.")] = 1024,
    constant: Annotated[
        float | None, typer.Option(help="C of docs/format.md; by default it fits the precision.")
    ] = None,
    force: o.Force = False,
) -> None:
    """Write a model as a checkpoint of the stock Hugging Face GPT2Model.

    Example: ridgeformer export model --to gpt2 --out model-gpt2
    """
    from ridgeformer.export import save_gpt2
    from ridgeformer.transformer import check_writable, load
    from ridgeformer.types import Refusal

    if out.exists() and model.exists() and out.samefile(model):
        raise Refusal(f"--out {out} is the model itself: choose another directory.")
    check_writable(out, force)
    transformer, saved = load(model)
    save_gpt2(transformer, out, saved, positions=positions, constant=constant, force=force)
    typer.echo(f"{out}: {to} checkpoint, {len(transformer.blocks)} layers, {positions} positions.")
