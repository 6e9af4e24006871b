"""`ridgeformer prompts`: prompts that a task draws, in a file for other commands."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import files
from ridgeformer.cli import options as o

if TYPE_CHECKING:
    from ridgeformer.cli.choices import Choice


def prompts(
    task: Annotated[str, typer.Argument(help="The task: {tasks}.", metavar="TASK")],
    out: o.Out,
    batch: Annotated[int, typer.Option(help="The number of prompts.", min=1)] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the prompts.", min=0)] = 0,
    **options: Any,
) -> None:
    """Draw prompts from a task: writes phi [B,k,p], y [B,k,r] and phi_query [B,q,p], and says how large they are.

    Example: ridgeformer prompts spectrum --features 8 --condition 100 --out prompts.npz
    """
    from ridgeformer.cli import choices
    from ridgeformer.compiler import largest_eigenvalue
    from ridgeformer.kernels import Linear
    from ridgeformer.tasks import TASKS

    files.check_output(out)
    kind, asked = TASKS.find(task), choices.given(options)
    choices.check(asked, (choices.Choice({"task": task}, (kind,)), task_choices()))
    try:
        drawn = choices.build(kind, f"the {task} task", asked).draw(batch, seed)
    except RuntimeError as error:  # which PyTorch raises in place of MemoryError
        if "allocate memory" not in str(error):
            raise
        raise MemoryError from error
    drawn.save(out)
    longest = max(float(x.norm(dim=-1).max()) for x in (drawn.phi, drawn.phi_query))
    typer.echo(
        f"{out}: phi {list(drawn.phi.shape)}, y {list(drawn.y.shape)}, phi_query {list(drawn.phi_query.shape)}; "
        f"λ_max(K) up to {float(largest_eigenvalue(drawn, Linear()).max()):.6g} on the linear kernel, |φ| up to "
        f"{longest:.4g}, |y| up to {float(drawn.y.abs().max()):.4g}."
    )


def task_choices() -> list[Choice]:
    from ridgeformer.cli.choices import Choice
    from ridgeformer.tasks import TASKS

    return [Choice({"task": name}, (cls,)) for name, cls in TASKS.items()]


def options() -> list[Parameter]:
    """The options of the tasks."""
    from ridgeformer.cli import choices

    return choices.parameters({"Options of the task": task_choices()})
