"""The demo's second part: the same claim with the attention that real models use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ridgeformer.compiler import Exact, Interpolated, SoftmaxAttention, compile, size_report
from ridgeformer.experiments.demonstration.conjugate_gradients import PROSE, Errors
from ridgeformer.experiments.finding import Axes, Collector, Figure, Finding, Table
from ridgeformer.kernels import Exponential, Gaussian, Kernel
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import Solver, krr, make_solver, solve
from ridgeformer.tasks import KernelDraw, Prompt

PROMPTS, SUPPORTS, MAX_NORM, MAX_TARGET, WIDTH = 32, 32, 1.5, 4.0, 512
SIZES = ["MLP", "layers", "d_model"]
HEADER = ["solver, kernel", *SIZES, "vs solver", "certified", "vs KRR", "one head vs KRR"]
MEASURES = {
    "vs solver": "largest difference between the model and its solver",
    "vs KRR": "largest error of the model after the last step",
    "one head vs KRR": "largest error of the Nadaraya–Watson smoother",
}


@dataclass(frozen=True)
class Case:
    title: str
    solver: Solver
    kernel: Kernel
    features: int
    ridge: float
    steps: int
    products: Exact | Interpolated

    def draw(self, seed: int) -> Prompt:
        """Prompts with targets from the kernel itself, brought inside the domain."""
        task = KernelDraw(kernel=self.kernel, features=self.features, supports=SUPPORTS, scale=0.6)
        return task.draw(PROMPTS, seed).inside(MAX_NORM, MAX_TARGET)


PLAIN = Interpolated(MAX_TARGET, width=WIDTH)
CASES = (
    Case("cg, exponential", make_solver("cg"), Exponential(2.0), 4, 1.0, 8, Exact(MAX_TARGET)),
    *(
        Case(f"{name}, Gaussian", make_solver(name, "row-sum"), Gaussian(0.5), 2, 0.1, 60, PLAIN)
        for name in ("richardson", "chebyshev")
    ),
)


def measure(case: Case, seed: int) -> tuple[Errors, list[str]]:
    """The errors of one case, and its row of the table."""
    model = compile(
        case.solver, features=case.features, steps=case.steps, ridge=case.ridge, kernel=case.kernel,
        to=SoftmaxAttention(MAX_NORM, SUPPORTS, case.products),
    )  # fmt: skip
    prompt = case.draw(seed)
    exact = krr(prompt, ridge=case.ridge, kernel=case.kernel)
    smoother = solve(make_solver("nadaraya-watson"), prompt, steps=1, ridge=1.0, kernel=case.kernel)
    ours, solver = trajectory(model, prompt), reference(model, prompt)
    model_error, solver_error = (t.distance(exact).amax(1).numpy() for t in (ours, solver))
    one_head = float(smoother.distance(exact)[-1].max())
    values = (float(ours.distance(solver).max()), float(model_error[-1]), one_head)
    size, promise = size_report(model), model.certificate.absolute_error
    mlp = f"{model.transformer.config.mlp} {size['d_mlp']}"
    apart, last, smooth = (f"{value:.1e}" for value in values)
    promised = "round-off" if promise is None else f"{promise:.1e}"
    sizes = [mlp, str(size["layers"]), str(size["d_model"])]
    row = [case.title, *sizes, apart, promised, last, smooth]
    numbers = dict(zip(MEASURES, values, strict=True))
    level = np.full(case.steps + 1, one_head)
    return Errors(model_error, solver_error, level, numbers), row


def softmax(seed: int, cases: Iterable[Case]) -> Finding:
    out, panels, rows = Collector(PROMPTS, seed), [], []
    axes = Axes("step", "|f_t − f*|, worst query")
    for case in cases:
        errors, row = measure(case, seed)
        for name, value in errors.numbers.items():
            out.exact(name, case.title, value, steps=case.steps)
        panels.append(errors.panel(case.title, axes, "one head (Nadaraya–Watson)", "solver"))
        rows.append(row)
    settings = {"supports": SUPPORTS, "largest norm": MAX_NORM, "largest target": MAX_TARGET}
    return Finding(
        "softmax", seed, PROMPTS, settings, MEASURES, out.numbers,
        figures=[Figure([panels])], tables=[Table(HEADER, rows)],
        **PROSE.titled("softmax", width=WIDTH),
    )  # fmt: skip
