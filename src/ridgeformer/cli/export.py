"""`ridgeformer export`: a saved model in the format of another library."""

from __future__ import annotations

from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import options as o

if TYPE_CHECKING:
    from ridgeformer.cli.choices import Choice


def export(
    model: o.SavedOrShipped,
    out: Annotated[Path, typer.Option(help="Directory for the checkpoint.")],
    to: Annotated[str, typer.Option(help="The exporter, such as gpt2.", metavar="NAME")] = "gpt2",
    force: o.Force = False,
    **options: Any,
) -> None:
    """Write a model as a checkpoint of another library; gpt2 is the stock Hugging Face GPT2Model.

    Example: ridgeformer export model --to gpt2 --out model-gpt2
    """
    from ridgeformer.cli import choices
    from ridgeformer.experiments.named import directory_of
    from ridgeformer.export import EXPORTERS
    from ridgeformer.transformer import check_writable, load
    from ridgeformer.types import Refusal

    if out.exists() and model.exists() and out.samefile(model):
        raise Refusal(f"--out {out} is the model itself: choose another directory.")
    check_writable(out, force)
    kind, asked = EXPORTERS.find(to), choices.given(options)
    choices.check(asked, (choices.Choice({"to": to}, (kind,)), exporter_choices()))
    exporter = choices.build(kind, f"--to {to}", asked)
    transformer, saved = load(directory_of(model))
    exporter.save(transformer, out, saved, force)
    typer.echo(f"{out}: {kind.summary}, {len(transformer.blocks)} layers.")


def exporter_choices() -> list[Choice]:
    from ridgeformer.cli.choices import Choice
    from ridgeformer.export import EXPORTERS

    return [Choice({"to": name}, (cls,)) for name, cls in EXPORTERS.items()]


def options() -> list[Parameter]:
    """The options of the exporters."""
    from ridgeformer.cli import choices

    return choices.parameters({"Options of the exporter": exporter_choices()})
