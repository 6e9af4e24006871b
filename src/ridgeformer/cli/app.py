"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ridgeformer import __version__
from ridgeformer.cli import options as o
from ridgeformer.cli import tools, training

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Solvers compiled to transformers: kernel ridge regression in a forward pass.",
)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turns a refusal into one sentence and exit code 2, and never shows a traceback for it."""
    from ridgeformer.types import Refusal

    try:
        yield
    except Refusal as refusal:
        typer.echo(f"Error: {refusal}", err=True)
        raise typer.Exit(2) from None
    except MemoryError:
        typer.echo(
            "Error: not enough memory for this size: use fewer prompts or supports.", err=True
        )
        raise typer.Exit(2) from None


def command(
    function: Callable[..., None], where: typer.Typer = app, name: str | None = None
) -> Callable[..., None]:
    return where.command(name)(guarded(function))


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Refusals of the function are told in one sentence."""

    @wraps(function)
    def told(*args: Any, **kwargs: Any) -> None:
        with one_sentence():
            function(*args, **kwargs)

    return told


@command
def compile(
    solver: o.SolverName,
    features: o.Features,
    out: o.ModelOut,
    steps: Annotated[int | None, typer.Option(help="Number of solver steps T.")] = None,
    ridge: Annotated[float | None, typer.Option(help="The ridge λ > 0.")] = None,
    attention: o.Attention = "linear",
    kernel: o.KernelName = "linear",
    mlp: o.Mlp = "relu",
    precondition: o.Preconditioner = "none",
    outputs: o.Outputs = 1,
    causal: o.Causal = False,
    dtype: o.Dtype = "float64",
    temperature: o.Temperature = 1.0,
    lengthscale: o.Lengthscale = 1.0,
    degree: o.Degree = 2,
    offset: o.Offset = 1.0,
    projection: o.Projection = None,
    max_eigenvalue: o.MaxEigenvalue = None,
    max_norm: o.MaxNorm = None,
    max_supports: o.MaxSupports = None,
    max_target: o.MaxTarget = None,
    tolerance: o.Tolerance = None,
    mlp_width: o.MlpWidth = None,
    interval: o.Interval = None,
    heads: o.Heads = None,
    epsilon: o.Epsilon = None,
    force: o.Force = False,
) -> None:
    """Compile a solver into the weights of a transformer.

    Linear attention:  compile cg --features 8 --steps 10 --ridge 1 --max-eigenvalue 99 --out cg

    Softmax attention: compile cg --attention softmax --kernel exponential --mlp reglu --features 4
    --steps 8 --ridge 0.5 --max-norm 2 --max-supports 64 --out cg-softmax
    """
    from ridgeformer.compiler import compile as compile_solver
    from ridgeformer.compiler import size_report
    from ridgeformer.solvers import make_solver
    from ridgeformer.transformer import check_writable
    from ridgeformer.types import Refusal

    check_writable(out, force)
    method = make_solver(solver, precondition)
    if steps is None and not method.smooths:
        raise Refusal(f"--steps is needed for {solver}: the number of its iterations.")
    model = compile_solver(
        method,
        features=features,
        outputs=outputs,
        steps=1 if steps is None else steps,
        ridge=ridge,
        kernel=tools.make_kernel(
            kernel,
            temperature=temperature,
            lengthscale=lengthscale,
            degree=degree,
            offset=offset,
            projection=tools.read_matrix(projection),
        ),
        attention=attention,
        mlp=mlp,
        dtype=dtype,
        causal=causal,
        max_eigenvalue=max_eigenvalue,
        max_norm=max_norm,
        max_supports=max_supports,
        max_target=max_target,
        tolerance=tolerance,
        mlp_width=mlp_width,
        interval=interval,
        heads=heads,
        epsilon=epsilon,
    )
    model.save(out, force)
    size, certificate = size_report(model), model.certificate
    certified = "."
    if certificate.absolute_error is not None:
        certified = f"; certified error {certificate.absolute_error:.2g}."
    elif certificate.relative_error is None:
        certified = "; too narrow to certify an error: raise --mlp-width for a promise."
    kept = "p" if size["kept features"] == features else f"{size['kept features']} of {features}"
    typer.echo(
        f"{out}: {solver}, {certificate.steps} steps in {size['layers']} layers, "
        f"d_model {size['d_model']} ({kept} + {size['beyond features']}), {size['heads']} heads of "
        f"{size['d_head']}, d_mlp {size['d_mlp']}, {size['parameters']:,} parameters" + certified
    )


@command
def predict(
    model: Annotated[Path, typer.Argument(help="Directory of a compiled or trained model.")],
    prompts: o.Prompts,
    out: o.Out,
    trajectory: Annotated[
        bool,
        typer.Option(
            "--trajectory",
            help="Also write the predictions after every step; of a trained model after every layer, through its "
            "own final norm and unembedding (a logit lens).",
        ),
    ] = False,
) -> None:
    """Run a saved model on prompts: writes prediction [B,q,r] and, on request, trajectory [T+1,B,q,r]."""
    import torch

    from ridgeformer.models import load
    from ridgeformer.models import trajectory as read_trajectory
    from ridgeformer.tasks import Prompt

    tools.check_output(out, prompts)
    loaded = load(model)
    prompt = Prompt.load(prompts)
    loaded.check(prompt)
    parts = [
        read_trajectory(loaded, part).predictions if trajectory else loaded.predict(part)[None]
        for part in tools.batches(prompt, "predicting", loaded.cost(prompt))
    ]
    tools.write(out, torch.cat(parts, dim=1), trajectory)


@command
def solve(
    solver: o.SolverName,
    prompts: o.Prompts,
    steps: o.Steps,
    ridge: o.Ridge,
    out: o.Out,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Also write the predictions after every step.")
    ] = False,
    precondition: o.Preconditioner = "none",
    max_eigenvalue: Annotated[
        float | None,
        typer.Option(help="Tune fixed coefficients to [λ, λ + this] instead of to the prompts."),
    ] = None,
    kernel: Annotated[
        str, typer.Option(help="linear, exponential, gaussian, polynomial.", metavar="KERNEL")
    ] = "linear",
    temperature: Annotated[float, typer.Option(help="τ of the exponential kernel.")] = 1.0,
    lengthscale: Annotated[float, typer.Option(help="ℓ of the Gaussian kernel.")] = 1.0,
    degree: Annotated[int, typer.Option(help="Degree of the polynomial kernel.")] = 2,
    offset: Annotated[float, typer.Option(help="Offset of the polynomial kernel.")] = 1.0,
) -> None:
    """Run a reference solver on prompts; 'krr' is the closed form."""
    import torch

    from ridgeformer.solvers import krr, make_solver
    from ridgeformer.solvers import solve as run_solver
    from ridgeformer.tasks import Prompt
    from ridgeformer.types import Refusal

    tools.check_output(out, prompts)
    chosen = tools.make_kernel(
        kernel, temperature=temperature, lengthscale=lengthscale, degree=degree, offset=offset
    )
    if max_eigenvalue is not None and not max_eigenvalue > 0:
        raise Refusal(f"--max-eigenvalue must be positive, got {max_eigenvalue}.")
    prompt = Prompt.load(prompts)
    parts = []
    method = None if solver == "krr" else make_solver(solver, precondition)
    for part in tools.batches(prompt, "solving"):
        if method is None:
            parts.append(krr(part, ridge=ridge, kernel=chosen)[None])
            continue
        found = run_solver(
            method,
            part,
            steps=steps,
            ridge=ridge,
            kernel=chosen,
            max_eigenvalue=max_eigenvalue,
        )
        parts.append(found.predictions)
    tools.write(out, torch.cat(parts, dim=1), trajectory)


@command
def inspect(
    model: Annotated[Path, typer.Argument(help="Directory of a saved model.")],
    layers: Annotated[int, typer.Option(help="How many layers to list; 0 for all.")] = 24,
) -> None:
    """Show what a model computes, layer by layer, with its size and certificate; of a trained one its recipe."""
    from ridgeformer.cli.inspection import show

    show(model, layers)


@command
def export(
    model: Annotated[Path, typer.Argument(help="Directory of a saved model.")],
    out: Annotated[Path, typer.Option(help="Directory for the checkpoint.")],
    to: Annotated[Literal["gpt2"], typer.Option(help="The class to export to.")] = "gpt2",
    positions: Annotated[int, typer.Option(help="Most tokens that a prompt may have.")] = 1024,
    constant: Annotated[
        float | None, typer.Option(help="C of docs/format.md; by default it fits the precision.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a saved model.")] = False,
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


@command
def evaluate(
    model: Annotated[Path, typer.Argument(help="Directory of a trained or compiled model.")],
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="A task's name, or a recipe; may be repeated.", metavar="NAME|RECIPE.toml"
        ),
    ] = None,
    prompts: Annotated[int, typer.Option(help="Prompts per setting.")] = 512,
    seed: Annotated[int, typer.Option(help="Seed of prompts and intervals.")] = 0,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="A baseline, or none; may be repeated; all if left out.", metavar="NAME"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the page; results/evaluate-MODEL if left out.")
    ] = None,
) -> None:
    """Measure a model on its task: against the best predictor, baselines and shifts; one page, one table."""
    from ridgeformer.experiments import evaluate as run

    named = [] if baseline == ["none"] else baseline
    where = out or Path("results") / f"evaluate-{model.absolute().name}"
    run(model, where, tasks=task or (), prompts=prompts, seed=seed, baselines=named)


@command
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the page.")] = Path("results/demo"),
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
) -> None:
    """Compile CG, run it beside the textbook, the closed form and the theorem, and draw it."""
    from ridgeformer.experiments import demo as run

    run(out, seed)


@command
def study(
    name: Annotated[
        str | None, typer.Argument(help="Leave out for a list.", metavar="NAME")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the page; results/NAME if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of prompts and intervals.")] = 0,
    prompts: Annotated[int | None, typer.Option(help="Prompts per setting.")] = None,
) -> None:
    """Measure one question and write one page and its numbers; without a name, list the studies."""
    from ridgeformer.experiments import STUDIES, find_study, run_study

    if name is None:
        for known in STUDIES.values():
            typer.echo(f"{known.name:12} {known.summary}")
        return
    run_study(find_study(STUDIES, name), out or Path("results") / name, seed, prompts)


@command
def verify(
    fast: Annotated[bool, typer.Option("--fast", help="Fewer prompts and steps.")] = False,
    only: Annotated[str | None, typer.Option(help="One theorem, by name.", metavar="NAME")] = None,
    out: Annotated[Path, typer.Option(help="Directory for the report.")] = Path("results/verify"),
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
) -> None:
    """Measure every theorem as measured/bound, and draw it; exit 1 if one does not hold."""
    from ridgeformer.experiments import THEOREMS, chosen
    from ridgeformer.experiments import verify as run

    findings = run(chosen(THEOREMS, only), out, seed=seed, fast=fast)
    failed = [finding.name for finding in findings if not finding.holds]
    if failed:
        typer.echo(f"Does not hold: {', '.join(failed)}.", err=True)
        raise typer.Exit(1)


command(training.train)
command(training.model_path, training.zoo, "path")
command(training.rebuild, training.zoo, "rebuild")
training.zoo.callback()(guarded(training.list_models))
app.add_typer(training.zoo, name="zoo")


def version(show: bool) -> None:
    if show:
        typer.echo(f"ridgeformer {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


if __name__ == "__main__":
    app()
