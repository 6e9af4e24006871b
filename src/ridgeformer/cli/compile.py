"""`ridgeformer compile`: a solver into the weights of a transformer."""

from __future__ import annotations

from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ridgeformer.cli import files, interruption
from ridgeformer.cli import options as o

if TYPE_CHECKING:
    from ridgeformer.compiler import CompiledModel


def compile(
    solver: o.SolverName,
    features: Annotated[int, typer.Option(help="Feature dimension p.")],
    out: Annotated[Path, typer.Option(help="Directory for the saved model.")],
    steps: Annotated[
        int | None, typer.Option(help="Number of solver steps T; with --looped, the largest T.")
    ] = None,
    looped: Annotated[
        bool,
        typer.Option("--looped", help="Hold one step, repeated as often as predict --steps says."),
    ] = False,
    ridge: Annotated[float | None, typer.Option(help="The ridge λ > 0.")] = None,
    attention: Annotated[
        Literal["linear", "softmax"], typer.Option(help="Kind of attention.")
    ] = "linear",
    kernel: o.KernelName = "linear",
    mlp: Annotated[
        Literal["relu", "reglu"] | None,
        typer.Option(
            help="Plain ReLU, or gated (exact products); left out, relu, and reglu with --every-prefix."
        ),
    ] = None,
    outputs: Annotated[int, typer.Option(help="Number of outputs r.")] = 1,
    dtype: Annotated[
        Literal["float64", "float32"], typer.Option(help="Precision of the weights.")
    ] = "float64",
    force: o.Force = False,
    **options: Any,
) -> None:
    """Compile a solver into the weights of a transformer.

    Linear attention:  compile SOLVER --features 8 --steps 10 --ridge 1 --max-eigenvalue 99 --out model

    Softmax attention: compile SOLVER --attention softmax --kernel KERNEL --mlp reglu --features 4
    --steps 8 --ridge 0.5 --max-norm 2 --max-supports 64 --out model

    One step, looped:  compile SOLVER --looped --features 8 --ridge 1 --max-eigenvalue 99 --out model
    """
    from ridgeformer.cli import choices
    from ridgeformer.compiler import compile as compile_solver
    from ridgeformer.transformer import check_writable
    from ridgeformer.types import Refusal

    check_writable(out, force)
    asked = choices.given(options)
    mlp = mlp or ("reglu" if "every_prefix" in asked else "relu")
    choices.check(
        asked,
        choices.chosen_solver(solver),
        choices.chosen_kernel(kernel),
        choices.chosen_target(attention, mlp),
    )
    method = choices.make_solver(solver, asked)
    if steps is None and not method.smooths and not looped:
        raise Refusal(f"--steps is needed for {solver}: the number of its iterations.")
    with files.busy("compiling"):
        model = compile_solver(
            method,
            features=features,
            outputs=outputs,
            steps=steps,
            ridge=ridge,
            kernel=choices.make_kernel(kernel, asked),
            dtype=dtype,
            to=choices.make_target(attention, mlp, asked),
            looped=looped,
        )
    with interruption.waiting():  # Once it is saved there is nothing left to interrupt.
        model.save(out, force)
        typer.echo(f"{out}: {summary(model)}")


def options() -> list[Parameter]:
    """The options that depend on what is chosen."""
    from ridgeformer.cli import choices

    return choices.parameters(
        {
            "Options of the attention and its MLP": choices.target_choices(),
            "Options of the kernel": choices.kernel_choices(),
            "Options of the solver": choices.solver_choices(),
        }
    )


def summary(model: CompiledModel) -> str:
    """Steps, sizes, and the promise where it is not the usual one."""
    from ridgeformer.compiler import size_report
    from ridgeformer.types import counted

    size, certificate = size_report(model), model.certificate
    certified = ""
    if certificate.absolute_error is not None:
        certified = f"; certified error {certificate.absolute_error:.2g}"
    elif certificate.relative_error is None and certificate.from_heads:
        certified = "; no error is certified: leave --epsilon out for a promise, or a refusal with the reason"
    elif certificate.relative_error is None:
        certified = (
            "; too narrow to certify an error: raise --mlp-width, or give --tolerance instead"
        )
    p = certificate.features
    kept = "p" if size["kept features"] == p else f"{size['kept features']} of {p}"
    steps = f"{certificate.steps} steps in {size['layers']} layers"
    if certificate.looped:
        each = counted(int(size["layers per step"]), "layer")
        steps = f"1 to {certificate.steps:,} steps of {each} each, {size['layers']} layers in all"
    return (
        f"{certificate.solver}, {steps}, "
        f"d_model {size['d_model']} ({kept} + {size['beyond features']}), {counted(size['heads'], 'head')} of "
        f"{size['d_head']}, d_mlp {size['d_mlp']}, {size['parameters']:,} parameters{certified}."
    )
