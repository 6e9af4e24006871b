"""The costs of commands and calls, each of which has a limit. `make bench` prints them in one table.

`python benchmarks/run.py forward every-prefix` measures some groups of them only.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import explorer
import forward
import torch
from against_gpt2 import WANTED, speeds, time_to_error
from rich.console import Console
from rich.table import Table
from sklearn.kernel_ridge import KernelRidge
from turns import Call, fastest, ratio, threads

import ridgeformer as rf

LARGE = """
import ridgeformer as rf
task = rf.PrescribedSpectrum(features=16, supports=65536, condition=100.0)
prompt = task.draw(1, seed=0)
model = rf.compile(rf.ConjugateGradient(), features=16, steps=8, ridge=1.0,
                   to=rf.LinearAttention(task.max_eigenvalue))
model.predict(prompt)
"""


SOFTMAX = """
import sys, ridgeformer as rf
k = int(sys.argv[1])
prompt = rf.PrescribedSpectrum(features=8, supports=k, condition=1 + k / 8).draw(1, seed=0)
model = rf.compile(rf.Richardson(precondition="row-sum"), kernel=rf.Gaussian(1.0), features=8,
                   steps=4, ridge=1.0, to=rf.SoftmaxAttention(max_norm=4.0, max_supports=k))
model.predict(prompt)
"""

PEAK = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) / 2**20)
"""
# A process inherits ru_maxrss from the one that starts it, so that VmHWM is read instead.

COMMANDS = {
    "nadaraya-watson": "nadaraya-watson --attention softmax --kernel exponential --features 4",
    "cg, exponential": "cg --attention softmax --kernel exponential --temperature 2 --mlp reglu "
    "--features 4 --steps 8 --ridge 0.5 --max-norm 2 --max-supports 64",
    "richardson, 256 neurons": "richardson --precondition row-sum --attention softmax --kernel gaussian "
    "--lengthscale 0.5 --mlp relu --mlp-width 256 --features 2 --steps 100 --ridge 0.1 --max-norm 1.5 "
    "--max-supports 64 --max-target 4",
    "richardson, tolerance 1e-3": "richardson --precondition row-sum --attention softmax --kernel "
    "gaussian --lengthscale 0.5 --mlp relu --tolerance 1e-3 --features 2 --steps 100 --ridge 0.1 "
    "--max-norm 1.5 --max-supports 64 --max-target 4",
    "chebyshev, 256 neurons": "chebyshev --precondition row-sum --attention softmax --kernel gaussian "
    "--lengthscale 0.5 --mlp relu --mlp-width 256 --features 2 --steps 60 --ridge 0.1 --max-norm 1.5 "
    "--max-supports 64 --max-target 4",
    "cg from 8 softmax heads": "cg --kernel linear --attention softmax --heads 8 --mlp reglu "
    "--features 4 --steps 8 --ridge 0.5 --max-norm 2 --max-supports 64",
    "cg, linear attention": "cg --features 8 --steps 8 --ridge 1 --max-eigenvalue 99",
}


def growth(model: rf.CompiledModel, small: rf.Prompt, large: rf.Prompt) -> float:
    """How many times as long the large prompt takes in a forward pass."""

    def one_pass(prompt: rf.Prompt) -> Call:
        tokens = prompt.tokens()
        return lambda: model.transformer(tokens, prompt.supports + 1)

    with torch.inference_mode(), threads(1):
        return ratio(one_pass(large), one_pass(small))


def linear_growth(small: int, large: int) -> float:
    tasks = [
        rf.PrescribedSpectrum(features=16, supports=k, condition=100.0) for k in (small, large)
    ]
    model = rf.compile(
        rf.ConjugateGradient(),
        features=16,
        steps=8,
        ridge=1.0,
        to=rf.LinearAttention(tasks[0].max_eigenvalue),
    )
    return growth(model, *(task.draw(1, seed=0) for task in tasks))


def softmax_growth(small: int, large: int) -> float:
    tasks = [
        rf.KernelDraw(kernel=rf.Linear(), features=8, supports=k, scale=0.3) for k in (small, large)
    ]
    model = rf.compile(
        rf.Richardson(precondition="row-sum"),
        kernel=rf.Gaussian(1.0),
        features=8,
        steps=4,
        ridge=1.0,
        to=rf.SoftmaxAttention(max_norm=4.0, max_supports=large),
    )
    return growth(model, *(task.draw(1, seed=0) for task in tasks))


def compile_time() -> float:
    def compile_and_save() -> None:
        model = rf.compile(
            rf.ConjugateGradient(), features=64, steps=32, ridge=1.0, to=rf.LinearAttention(1e3)
        )
        with tempfile.TemporaryDirectory() as directory:
            model.save(Path(directory) / "m")

    return fastest(compile_and_save, rounds=3)


def peak_memory(code: str, *arguments: str) -> float:
    """Peak memory in GB of a process that runs the code."""
    result = subprocess.run(
        [sys.executable, "-c", code + PEAK, *arguments], capture_output=True, text=True, check=True
    )
    return float(result.stdout)


def scikit_learn(prompt: rf.Prompt) -> None:
    """Kernel ridge regression by scikit-learn, one prompt after the other."""
    arrays = [t.numpy() for t in (prompt.phi, prompt.y, prompt.phi_query)]
    for phi, y, query in zip(*arrays, strict=True):
        KernelRidge(alpha=1.0, kernel="linear").fit(phi, y).predict(query)


def peers() -> tuple[float, float, float]:
    """scikit-learn over `krr`, `krr` over a bare batched Cholesky, and scikit-learn over `solve`."""
    cg = rf.ConjugateGradient()
    prompt = rf.KernelDraw(kernel=rf.Linear(), features=16, supports=64).draw(1000, seed=0)

    def bare() -> None:
        system = prompt.phi @ prompt.phi.mT + torch.eye(64, dtype=torch.float64)
        alpha = torch.cholesky_solve(prompt.y, torch.linalg.cholesky(system))
        _ = (prompt.phi_query @ prompt.phi.mT) @ alpha

    krr: Call = lambda: rf.krr(prompt, ridge=1.0)  # noqa: E731
    solve: Call = lambda: rf.solve(cg, prompt, steps=8, ridge=1.0)  # noqa: E731
    loop: Call = lambda: scikit_learn(prompt)  # noqa: E731
    with threads(1):
        return ratio(loop, krr), ratio(krr, bare, rounds=15), ratio(loop, solve)


def command_time(arguments: str) -> float:
    """The time of a whole `ridgeformer compile`, start-up included."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "ridgeformer.cli", "compile", *arguments.split()]
        full = [*command, "--force", "--out", str(Path(directory) / "m")]
        return fastest(lambda: subprocess.run(full, capture_output=True, check=True), rounds=1)


def help_time() -> float:
    command = [sys.executable, "-m", "ridgeformer.cli", "--help"]
    return fastest(lambda: subprocess.run(command, capture_output=True, check=True))


EVERY_PREFIX = """
import ridgeformer as rf
task = rf.PrescribedSpectrum(features=8, supports=4096, condition=100.0)
prompt = task.draw(1, seed=0)
model = rf.compile(rf.ConjugateGradient(), features=8, steps=8, ridge=1.0, to=rf.LinearAttention(
    task.max_eigenvalue, rf.Exact(), causal=True, every_prefix=True))
model.predict_prefixes(prompt)
"""


def every_prefix_growth() -> float:
    """The time of one pass over 8,192 pairs over that of 1,024."""
    task = rf.PrescribedSpectrum(features=8, supports=8192, condition=100.0)
    long = task.draw(1, seed=0)
    short = rf.Prompt(long.phi[:, :1024], long.y[:, :1024], long.phi_query)
    to = rf.LinearAttention(task.max_eigenvalue, rf.Exact(), causal=True, every_prefix=True)
    model = rf.compile(rf.ConjugateGradient(), features=8, steps=8, ridge=1.0, to=to)
    return ratio(
        lambda: model.predict_prefixes(long), lambda: model.predict_prefixes(short), rounds=5
    )


Row = tuple[str, float, float, bool, str]
"""What is measured, the number, its limit, whether that is the most that it may be, and the unit."""


def forward_rows() -> Iterator[Row]:
    for what, value, limit, at_most in forward.rows():
        yield what, value, limit, at_most, "" if limit < 1 else "×"


def growth_rows() -> Iterator[Row]:
    what = "forward at k = 16,384 over k = 1,024 (8 CG steps)"
    yield what, linear_growth(1024, 16384), 20, True, "×"
    yield "memory at k = 65,536, p = 16, 8 CG steps", peak_memory(LARGE), 4, True, " GB"
    what = "softmax forward at k = 2,048 over k = 512 (4 steps)"
    yield what, softmax_growth(512, 2048), 20, True, "×"
    # One n×n matrix of weights would take 0.5 GB at k = 8,192; a process without a prompt takes 0.3 GB.
    for k in (64, 8192):
        yield f"softmax: memory at k = {k:,}", peak_memory(SOFTMAX, str(k)), 0.6, True, " GB"


def command_rows() -> Iterator[Row]:
    yield "compile and save CG, p = 64, 32 steps", compile_time(), 2, True, " s"
    for name, arguments in COMMANDS.items():
        yield f"ridgeformer compile {name}", command_time(arguments), 5, True, " s"
    yield "ridgeformer --help", help_time(), 0.5, True, " s"


def peer_rows() -> Iterator[Row]:
    krr, slower, solve = peers()
    yield "krr, 1,000 prompts of k = 64: faster than KernelRidge", krr, 20, False, "×"
    yield "krr over a bare batched Cholesky", slower, 1.5, True, "×"
    yield "solve cg, 8 steps: faster than KernelRidge", solve, 20, False, "×"


def every_prefix_rows() -> Iterator[Row]:
    what = "every prefix of 8,192 pairs over 1,024 (8 CG steps)"
    yield what, every_prefix_growth(), 10, True, "×"
    what = "memory for every prefix of 4,096 pairs, p = 8"
    yield what, peak_memory(EVERY_PREFIX), 2, True, " GB"


def training_rows() -> Iterator[Row]:
    """Beside Hugging Face's GPT-2; this takes some minutes."""
    plain, interleaved, single = speeds(queries=1)
    what = f"training, x y x y …: prompts/s over GPT2Model's {plain:.0f}"
    yield what, interleaved, 1.3, False, "×"
    plain, _, pairs = speeds(queries=32)
    what = f"training, pairs, 32 queries: prompts/s over GPT2Model's {plain:.0f}"
    yield f"{what} (one query: {single:.2g}×)", pairs, 2.5, False, "×"
    share, text = time_to_error()
    yield f"time to excess risk {WANTED:g}, over GPT2Model's{text}", share, 1 / 3, True, "×"


def explorer_rows() -> Iterator[Row]:
    yield from explorer.rows()


GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "forward": forward_rows,
    "growth": growth_rows,
    "commands": command_rows,
    "peers": peer_rows,
    "every-prefix": every_prefix_rows,
    "explorer": explorer_rows,
    "training": training_rows,
}


def main(groups: list[str]) -> None:
    if unknown := [name for name in groups if name not in GROUPS]:
        sys.exit(f"There is no group {unknown[0]!r}: choose from {', '.join(GROUPS)}.")
    console = Console()
    table = Table(title=f"ridgeformer benchmarks ({torch.get_num_threads()} threads)")
    for name in ("what", "measured", "wanted", ""):
        table.add_column(name, justify="left" if name == "what" else "right")
    failed = False
    for name in groups or GROUPS:
        with console.status(f"measuring: {name}"):
            for what, value, limit, at_most, unit in GROUPS[name]():
                good = value <= limit if at_most else value >= limit
                failed = failed or not good
                wanted = f"{'≤' if at_most else '≥'} {limit:g}{unit}"
                table.add_row(what, f"{value:.3g}{unit}", wanted, "ok" if good else "MISSED")
    console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(
        f"peak memory of this process {peak:.2f} GB; times are the fastest of several, ratios medians over turns"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
