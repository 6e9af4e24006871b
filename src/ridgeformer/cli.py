"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ridgeformer import __version__

if TYPE_CHECKING:
    from ridgeformer.kernels import Kernel
    from ridgeformer.tasks import Prompt

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Solvers compiled to transformers: kernel ridge regression in a forward pass.",
)


Mlp = Literal["relu", "reglu"]
Dtype = Literal["float64", "float32"]


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


def command(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        with one_sentence():
            function(*args, **kwargs)

    return app.command()(guarded)


Out = Annotated[Path, typer.Option(help="Where to write the result.")]
Steps = Annotated[int, typer.Option(help="Number of solver steps T.")]
Ridge = Annotated[float, typer.Option(help="The ridge λ > 0.")]
Preconditioner = Annotated[
    str, typer.Option(help="none, jacobi, or (solve only) row-sum.", metavar="KIND")
]
SolverName = Annotated[
    str, typer.Argument(help="gd, richardson, heavy-ball, chebyshev, cg, …", metavar="SOLVER")
]
Prompts = Annotated[
    Path, typer.Argument(help="An .npz with phi [B,k,p], y [B,k,r], phi_query [B,q,p].")
]


@command
def compile(
    solver: SolverName,
    features: Annotated[int, typer.Option(help="Feature dimension p.")],
    steps: Steps,
    ridge: Ridge,
    max_eigenvalue: Annotated[
        float, typer.Option(help="Bound on λ_max(K): the domain of the model, and of its tuning.")
    ],
    out: Annotated[Path, typer.Option(help="Directory for the saved model.")],
    outputs: Annotated[int, typer.Option(help="Number of outputs r.")] = 1,
    precondition: Preconditioner = "none",
    causal: Annotated[bool, typer.Option("--causal", help="Strictly causal decoder.")] = False,
    mlp: Annotated[Mlp, typer.Option(help="Plain ReLU, or gated (exact products).")] = "relu",
    dtype: Annotated[Dtype, typer.Option(help="Precision of the weights.")] = "float64",
    kernel: Annotated[str, typer.Option(help="linear", metavar="KERNEL")] = "linear",
    attention: Annotated[str, typer.Option(help="linear", metavar="KIND")] = "linear",
    force: Annotated[bool, typer.Option("--force", help="Replace a saved model.")] = False,
) -> None:
    """Compile a solver into the weights of a transformer.

    Example: ridgeformer compile cg --features 8 --steps 10 --ridge 1 --max-eigenvalue 99 --out cg
    """
    from ridgeformer.compiler import compile as compile_solver
    from ridgeformer.compiler import size_report
    from ridgeformer.solvers import make_solver
    from ridgeformer.transformer import check_writable
    from ridgeformer.types import Refusal

    check_writable(out, force)
    if attention != "linear" or kernel != "linear":
        raise Refusal(
            f"--attention {attention} with --kernel {kernel} does not compile; the nearest "
            "possible combination is --attention linear --kernel linear."
        )
    model = compile_solver(
        make_solver(solver, precondition),
        features=features,
        outputs=outputs,
        steps=steps,
        ridge=ridge,
        max_eigenvalue=max_eigenvalue,
        causal=causal,
        mlp=mlp,
        dtype=dtype,
    )
    model.save(out, force)
    size = size_report(model)
    typer.echo(
        f"{out}: {solver}, {steps} steps in {size['layers']} layers, d_model {size['d_model']} "
        f"(p + {size['beyond features']}), {size['heads']} heads of {size['d_head']}, "
        f"d_mlp {size['d_mlp']}, {size['parameters']:,} parameters."
    )


@command
def predict(
    model: Annotated[Path, typer.Argument(help="Directory of a compiled model.")],
    prompts: Prompts,
    out: Out,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Also write the predictions after every step.")
    ] = False,
) -> None:
    """Run a saved model on prompts: writes prediction [B,q,r] and, on request, trajectory [T+1,B,q,r]."""
    import torch

    from ridgeformer.compiler import CompiledModel
    from ridgeformer.readout import trajectory as read_trajectory
    from ridgeformer.tasks import Prompt

    check_output(out, prompts)
    compiled = CompiledModel.load(model)
    prompt = Prompt.load(prompts)
    compiled.certificate.check(prompt)
    parts = [
        read_trajectory(compiled, part).predictions if trajectory else compiled.predict(part)[None]
        for part in batches(prompt, "predicting")
    ]
    write(out, torch.cat(parts, dim=1), trajectory)


@command
def solve(
    solver: SolverName,
    prompts: Prompts,
    steps: Steps,
    ridge: Ridge,
    out: Out,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Also write the predictions after every step.")
    ] = False,
    precondition: Preconditioner = "none",
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

    check_output(out, prompts)
    chosen = make_kernel(
        kernel, temperature=temperature, lengthscale=lengthscale, degree=degree, offset=offset
    )
    if max_eigenvalue is not None and not max_eigenvalue > 0:
        raise Refusal(f"--max-eigenvalue must be positive, got {max_eigenvalue}.")
    prompt = Prompt.load(prompts)
    parts = []
    method = None if solver == "krr" else make_solver(solver, precondition)
    for part in batches(prompt, "solving"):
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
    write(out, torch.cat(parts, dim=1), trajectory)


@command
def inspect(
    model: Annotated[Path, typer.Argument(help="Directory of a saved model.")],
    layers: Annotated[int, typer.Option(help="How many layers to list; 0 for all.")] = 24,
) -> None:
    """Show what a model computes, layer by layer, with its size and certificate."""
    from ridgeformer.inspection import show

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
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the page.")] = Path("results/demo"),
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
) -> None:
    """Compile CG, run it beside the textbook, the closed form and the theorem, and draw it."""
    from ridgeformer.demo import run

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
    from ridgeformer.studies import STUDIES, find_study, run_study

    if name is None:
        for known in STUDIES.values():
            typer.echo(f"{known.name:12} {known.summary}")
        return
    run_study(find_study(STUDIES, name), out or Path("results") / name, seed, prompts)


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


def check_output(out: Path, prompts: Path) -> None:
    from ridgeformer.types import Refusal

    if out.is_dir():
        raise Refusal(f"{out} is a directory: name a file for the result.")
    if out.exists() and prompts.exists() and out.samefile(prompts):
        raise Refusal(f"--out {out} is the prompt file itself: choose another name.")
    if not out.absolute().parent.is_dir():
        raise Refusal(f"{out} cannot be written: its directory does not exist.")


def batches(prompt: Prompt, what: str) -> Iterator[Prompt]:
    """The prompts in parts of bounded memory, under a progress bar."""
    from rich.console import Console
    from rich.progress import track

    from ridgeformer.tasks import Prompt

    tokens = prompt.supports + 1 + prompt.phi_query.shape[1]
    size = max(1, 2**17 // tokens)
    starts = range(0, len(prompt.phi), size)
    console = Console(file=sys.stderr)
    for start in track(
        starts, what, console=console, transient=True, disable=not sys.stderr.isatty()
    ):
        part = slice(start, start + size)
        yield Prompt(prompt.phi[part], prompt.y[part], prompt.phi_query[part])


def write(out: Path, predictions: Any, trajectory: bool) -> None:
    from ridgeformer.tasks import write_arrays

    arrays = {"prediction": predictions[-1].numpy()}
    if trajectory:
        arrays["trajectory"] = predictions.numpy()
    write_arrays(out, **arrays)
    typer.echo(f"{out}: " + ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items()) + ".")


def make_kernel(name: str, **options: Any) -> Kernel:
    """The kernel of that name with those of the options that it has."""
    from dataclasses import fields

    from ridgeformer.kernels import KERNELS, kernel_from

    known = {field.name for field in fields(KERNELS[name])} if name in KERNELS else set()  # type: ignore[arg-type]
    return kernel_from({"name": name} | {n: v for n, v in options.items() if n in known})


if __name__ == "__main__":
    app()
