"""`ridgeformer solve`: a reference solver, or the closed form, on prompts."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer

from ridgeformer.cli import files
from ridgeformer.cli import options as o

CLOSED_FORM = "krr"


def solve(
    solver: o.SolverName,
    prompts: o.Prompts,
    ridge: Annotated[float, typer.Option(help="The ridge λ > 0.")],
    out: o.Out,
    steps: Annotated[
        int | None, typer.Option(help="Number of solver steps T; krr has none.")
    ] = None,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Also write the predictions after every step.")
    ] = False,
    max_eigenvalue: Annotated[
        float | None,
        typer.Option(help="Tune fixed coefficients to [λ, λ + this] instead of to the prompts."),
    ] = None,
    kernel: o.KernelName = "linear",
    **options: Any,
) -> None:
    """Run a reference solver on prompts; 'krr' is the closed form."""
    import torch

    from ridgeformer.cli import choices
    from ridgeformer.solvers import krr
    from ridgeformer.solvers import solve as run_solver
    from ridgeformer.tasks import Prompt
    from ridgeformer.types import Refusal

    files.check_output(out, prompts)
    asked = choices.given(options)
    closed = solver == CLOSED_FORM
    method = choices.Choice({"solver": solver}, ()), choices.solver_choices()
    choices.check(
        asked,
        method if closed else choices.chosen_solver(solver),
        choices.chosen_kernel(kernel),
    )
    if steps is None and not closed:
        raise Refusal(f"--steps is needed for {solver}: the number of its iterations.")
    if max_eigenvalue is not None and closed:
        raise Refusal("--max-eigenvalue tunes an iteration, and krr has none: leave it out.")
    if max_eigenvalue is not None and not max_eigenvalue > 0:
        raise Refusal(f"--max-eigenvalue must be positive, got {max_eigenvalue}.")
    chosen = choices.make_kernel(kernel, asked)

    def predictions(part: Prompt) -> torch.Tensor:
        if closed:
            return krr(part, ridge=ridge, kernel=chosen)[None]
        assert steps is not None
        return run_solver(
            choices.make_solver(solver, asked),
            part,
            steps=steps,
            ridge=ridge,
            kernel=chosen,
            max_eigenvalue=max_eigenvalue,
        ).predictions

    parts = [predictions(part) for part in files.batches(Prompt.load(prompts), "solving")]
    files.write(out, torch.cat(parts, dim=1), trajectory)


def options() -> list[Parameter]:
    """The options that depend on what is chosen."""
    from ridgeformer.cli import choices

    return choices.parameters(
        {
            "Options of the kernel": choices.kernel_choices(),
            "Options of the solver": choices.solver_choices(),
        }
    )
