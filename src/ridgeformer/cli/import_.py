"""`ridgeformer import`: a checkpoint of another library as a saved model."""

from __future__ import annotations

from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import options as o

if TYPE_CHECKING:
    from ridgeformer.cli.choices import Choice
    from ridgeformer.tasks import LearnableTask
    from ridgeformer.training import Recipe


def import_(
    checkpoint: Annotated[Path, typer.Argument(help="Directory of the checkpoint.", metavar="DIR")],
    out: Annotated[Path, typer.Option(help="Directory for the saved model.")],
    task: Annotated[
        str,
        typer.Option(
            help="What the model was trained on: a task, or a recipe.", metavar="NAME|RECIPE.toml"
        ),
    ],
    source: Annotated[
        str, typer.Option("--from", help="The importer, such as gpt2.", metavar="NAME")
    ] = "gpt2",
    force: o.Force = False,
    **options: Any,
) -> None:
    """Read a checkpoint of another library; gpt2 is a Hugging Face GPT2Model that reads numbers.

    Example: ridgeformer import --from gpt2 checkpoint --out model --task linear --features 20
    --supports 40 --queries 1 --condition 1 --noise 0
    """
    from ridgeformer.cli import choices
    from ridgeformer.models import IMPORTERS
    from ridgeformer.transformer import check_writable
    from ridgeformer.types import Refusal, counted

    if out.exists() and checkpoint.exists() and out.samefile(checkpoint):
        raise Refusal(f"--out {out} is the checkpoint itself: choose another directory.")
    check_writable(out, force)
    kind, asked = IMPORTERS.find(source), choices.given(options)
    importer = choices.Choice({"from": source}, (kind,))
    trained_on = described(task, asked, importer)
    model = choices.build(kind, f"--from {source}", asked).load(checkpoint, trained_on)
    model.save(out, force)
    config = model.transformer.config
    typer.echo(
        f"{out}: {kind.summary}; {counted(config.n_layers, 'layer')}, d_model {config.d_model}, at most "
        f"{counted(model.most_supports, 'support') if model.most_supports else 'any number of supports'}."
    )


def described(task: str, asked: dict[str, Any], importer: Choice) -> LearnableTask | Recipe:
    """The task with the options that it has, or a recipe, which needs none."""
    from ridgeformer.cli import choices
    from ridgeformer.tasks import LEARNABLE
    from ridgeformer.training import recipes
    from ridgeformer.types import Refusal

    if task.endswith(".toml") or (task not in LEARNABLE and task in recipes.files()):
        if more := [name for name in asked if name not in importer.options()]:
            raise Refusal(f"{choices.flag_of(more[0])} is said by the recipe {task}: leave it out.")
        return recipes.load(task)
    kind = LEARNABLE.find(task)
    chosen = choices.Choice({"task": task}, (kind,))
    choices.check(asked, (chosen, task_choices()), (importer, importer_choices()))
    made: LearnableTask = choices.build(kind, f"--task {task}", asked)
    return made


def task_choices() -> list[Choice]:
    from ridgeformer.cli.choices import Choice
    from ridgeformer.tasks import LEARNABLE

    return [Choice({"task": name}, (cls,)) for name, cls in LEARNABLE.items()]


def importer_choices() -> list[Choice]:
    from ridgeformer.cli.choices import Choice
    from ridgeformer.models import IMPORTERS

    return [Choice({"from": name}, (cls,)) for name, cls in IMPORTERS.items()]


def options() -> list[Parameter]:
    """The options of the importers and of the tasks."""
    from ridgeformer.cli import choices

    return choices.parameters(
        {"Options of the importer": importer_choices(), "Options of the task": task_choices()}
    )
