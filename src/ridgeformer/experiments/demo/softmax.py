"""The demo's second half: the same claim with the attention that real models use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.compiler import CompiledModel, compile, size_report
from ridgeformer.experiments.report import Convergence, Section, Table, convergence_figure
from ridgeformer.kernels import Exponential, Gaussian, Kernel
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import NadarayaWatson, Solver, krr, make_solver, solve
from ridgeformer.tasks import KernelDraw, Prompt

PROMPTS, SUPPORTS, MAX_NORM, MAX_TARGET = 32, 32, 1.5, 4.0
HEADER = [
    "solver, kernel",
    "MLP",
    "layers",
    "d_model",
    "vs solver",
    "certified",
    "vs KRR",
    "one head vs KRR",
]


@dataclass(frozen=True)
class Case:
    title: str
    solver: Solver
    kernel: Kernel
    features: int
    ridge: float
    steps: int
    mlp: str
    mlp_width: int | None = None

    def compile(self) -> CompiledModel:
        return compile(
            self.solver,
            features=self.features,
            steps=self.steps,
            ridge=self.ridge,
            kernel=self.kernel,
            attention="softmax",
            mlp="relu" if self.mlp == "relu" else "reglu",
            max_norm=MAX_NORM,
            max_supports=SUPPORTS,
            max_target=MAX_TARGET,
            mlp_width=self.mlp_width,
        )


CASES = (
    Case("cg, exponential", make_solver("cg"), Exponential(2.0), 4, 1.0, 8, "reglu"),
    Case(
        "richardson, Gaussian",
        make_solver("richardson", "row-sum"), Gaussian(0.5), 2, 0.1, 60, "relu", 512,
    ),
    Case(
        "chebyshev, Gaussian",
        make_solver("chebyshev", "row-sum"), Gaussian(0.5), 2, 0.1, 60, "relu", 512,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class SoftmaxFinding:
    """Errors of one case, worst over prompts and queries, per step."""

    case: Case
    panel: Convergence
    row: list[str]


def draw(case: Case, seed: int) -> Prompt:
    """Targets from the kernel itself, brought inside the domain."""
    task = KernelDraw(kernel=case.kernel, features=case.features, supports=SUPPORTS, scale=0.6)
    return task.draw(PROMPTS, seed).inside(MAX_NORM, MAX_TARGET)


def measure(case: Case, seed: int) -> SoftmaxFinding:
    model, prompt = case.compile(), draw(case, seed)
    solution = reference(model, prompt)
    exact = krr(prompt, ridge=case.ridge, kernel=case.kernel)
    one_head = solve(NadarayaWatson(), prompt, steps=1, ridge=case.ridge, kernel=case.kernel)
    ours = trajectory(model, prompt)
    smoother = float((one_head.final - exact).abs().max())
    panel = Convergence(
        case.title,
        ours.distance(exact).amax(1).numpy(),
        solution.distance(exact).amax(1).numpy(),
        np.full(case.steps + 1, smoother),
    )
    size, certificate = size_report(model), model.certificate
    apart, promise = float(ours.distance(solution).max()), "round-off"
    if certificate.absolute_error is not None:
        promise = f"{certificate.absolute_error:.1e}"
    row = [
        case.title,
        f"{case.mlp} {size['d_mlp']}",
        str(size["layers"]),
        str(size["d_model"]),
        f"{apart:.1e}",
        promise,
        f"{panel.model[-1]:.1e}",
        f"{smoother:.1e}",
    ]
    return SoftmaxFinding(case, panel, row)


def section(findings: list[SoftmaxFinding]) -> Section:
    return Section(
        "Softmax attention: kernels are attention weights",
        "The same solvers behind softmax. The kernel head's weights are K/D with D = 1 + ΣK, the "
        "aggregator being a sink of logit 0, and MLPs multiply D back or use it as a preconditioner. "
        "CG has a gated MLP (reglu), whose products are exact; the others a plain ReLU MLP of 512 "
        "neurons, which interpolates products, so that the error falls until it meets that floor. The dotted line is what one softmax head computes, "
        "the Nadaraya–Watson smoother: it solves nothing, and stays where it is. Richardson and "
        "Chebyshev are tuned to the interval that is certain for every prompt of the domain, which is "
        "much wider than these prompts'.",
        [
            convergence_figure(
                [f.panel for f in findings],
                reference="solver",
                bound="one head (Nadaraya–Watson)",
                step="step",
            ),
            Table(HEADER, [f.row for f in findings]),
        ],
    )
