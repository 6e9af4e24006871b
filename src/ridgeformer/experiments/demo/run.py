"""What a visitor sees first: a compiled CG beside the textbook, the closed form and the theorem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table as RichTable

from ridgeformer.compiler import CompiledModel, compile, size_report
from ridgeformer.experiments.demo import softmax as demo_softmax
from ridgeformer.experiments.demo import trained as demo_trained
from ridgeformer.experiments.report import (
    Convergence,
    Section,
    Stream,
    Table,
    check_page,
    convergence_figure,
    stream_figure,
    write_page,
)
from ridgeformer.models import residual_stream, trajectory
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory import cg_prediction_bound

CONDITIONS = (10.0, 100.0, 1000.0)
FEATURES, SUPPORTS, STEPS, PROMPTS, RIDGE = 8, 32, 10, 64, 1.0
HEADER = [
    "κ",
    "model vs textbook CG",
    "textbook vs itself, reordered",
    "model vs closed form",
    "textbook vs closed form",
    "theorem's bound",
    "worst error ÷ bound",
]


@dataclass(frozen=True)
class Finding:
    """Errors of one condition number, worst over prompts and queries, per step."""

    condition: float
    prompt: Prompt
    model: np.ndarray
    reference: np.ndarray
    bound: np.ndarray
    apart: np.ndarray
    """Model against textbook, relative to the largest prediction."""
    control: float
    """The same for textbook CG with its supports in another order: its own round-off."""
    ratio: float
    """Largest measured error over its bound, where the error is above round-off."""


def measure(model: CompiledModel, condition: float, seed: int) -> Finding:
    task = PrescribedSpectrum(
        features=FEATURES, supports=SUPPORTS, condition=condition, ridge=RIDGE, shape="geometric"
    )
    prompt = task.draw(PROMPTS, seed)
    exact = krr(prompt, ridge=RIDGE)
    ours = trajectory(model, prompt)
    textbook = solve(ConjugateGradient(), prompt, steps=STEPS, ridge=RIDGE)
    backwards = Prompt(prompt.phi.flip(1), prompt.y.flip(1), prompt.phi_query)
    reordered = solve(ConjugateGradient(), backwards, steps=STEPS, ridge=RIDGE)
    bound = cg_prediction_bound(prompt, ridge=RIDGE, steps=STEPS)
    error = (ours.predictions - exact).abs()
    above = error > 1e-12 * exact.abs().max()
    return Finding(
        condition,
        prompt,
        ours.distance(exact).amax(1).numpy(),
        textbook.distance(exact).amax(1).numpy(),
        bound.amax((1, 2, 3)).numpy(),
        (ours.distance(textbook).amax(1) / exact.abs().max()).numpy(),
        float(reordered.distance(textbook).max() / exact.abs().max()),
        float((error / bound)[above].max()),
    )


def row(finding: Finding) -> list[str]:
    return [
        f"{finding.condition:g}",
        f"{finding.apart.max():.1e}",
        f"{finding.control:.1e}",
        f"{finding.model[-1]:.1e}",
        f"{finding.reference[-1]:.1e}",
        f"{finding.bound[-1]:.1e}",
        f"{finding.ratio:.2f}",
    ]


def streams(model: CompiledModel, prompt: Prompt) -> tuple[list[Stream], np.ndarray]:
    """The stream at one support, the aggregator and one query, and the layer of each sublayer."""
    one = Prompt(prompt.phi[:1], prompt.y[:1], prompt.phi_query[:1])
    values = residual_stream(model, one)[:, 0].numpy()
    k = one.supports
    found = []
    for title, token, place in (
        ("a support token: φ stays; α, r and p are updated", 0, "data"),
        ("the aggregator: scalars come and go", k, "aggregator"),
        ("a query token: the prediction f settles", k + 1, "data"),
    ):
        names = model.sites["channels"][place]
        labels = [
            f"{column} {', '.join(cells[:3])}".replace("inverse_rho", "1/rho")
            for column, cells in enumerate(names)
        ]
        used = [c for c in range(values.shape[2]) if np.abs(values[:, token, c]).max() > 0]
        found.append(Stream(title, values[:, token][:, used], [labels[c] for c in used]))
    layers = (np.arange(values.shape[0]) - 1) / 2
    return found, layers


def run(out: str | Path, seed: int = 0, console: Console | None = None) -> Path:
    """Measures, prints one table, writes one page, and returns its path."""
    console = console or Console()
    path = Path(out) / "index.html"
    check_page(path)
    model = compile(
        ConjugateGradient(),
        features=FEATURES,
        steps=STEPS,
        ridge=RIDGE,
        max_eigenvalue=(max(CONDITIONS) - 1) * RIDGE,
    )
    size = size_report(model)
    findings = [
        measure(model, condition, seed)
        for condition in track(CONDITIONS, "measuring", console=console, transient=True)
    ]
    table = RichTable(
        title=f"CG compiled to a transformer: {size['layers']} layers, width {size['d_model']}, "
        f"{PROMPTS} prompts of {SUPPORTS} supports, after {STEPS} steps (seed {seed})"
    )
    for cell in HEADER:
        table.add_column(cell, justify="right")
    for finding in findings:
        table.add_row(*row(finding))
    console.print(table)
    softmax = [
        demo_softmax.measure(case, seed)
        for case in track(demo_softmax.CASES, "softmax", console=console, transient=True)
    ]
    second = RichTable(
        title=f"The same behind softmax attention: {demo_softmax.PROMPTS} prompts of "
        f"{demo_softmax.SUPPORTS} supports"
    )
    shown = [0, 2, 4, 5, 6, 7]  # what fits a terminal; the page has all columns
    for index in shown:
        second.add_column(demo_softmax.HEADER[index], justify="right" if index else "left")
    for found in softmax:
        second.add_row(*(found.row[index] for index in shown))
    console.print(second)
    with console.status("trained models"):
        trained = demo_trained.measure(seed)
    third = RichTable(
        title=f"Trained models beside compiled CG: excess risk, {demo_trained.PROMPTS} prompts of linear "
        "regression, κ from 1 to 100"
    )
    for cell in demo_trained.HEADER:
        third.add_column(cell, justify="right")
    for cells in trained.rows:
        third.add_row(*cells)
    console.print(third)
    write(path, model, findings, softmax, trained, seed)
    console.print(f"The pictures: [bold]{path}[/bold]", soft_wrap=True)
    return path


def write(
    path: Path,
    model: CompiledModel,
    findings: list[Finding],
    softmax: list[demo_softmax.SoftmaxFinding],
    trained: demo_trained.TrainedFinding,
    seed: int,
) -> None:
    size = size_report(model)
    panels = [Convergence(f"κ = {f.condition:g}", f.model, f.reference, f.bound) for f in findings]
    tokens, layers = streams(model, findings[1].prompt)
    marks = {
        (
            int(entry["site"].split(".")[1]) if entry["site"] != "embed" else -0.5
        ): f"f{entry['step']}"
        for entry in model.sites["predictions"]
    }
    sections = [
        Section(
            "The transformer is conjugate gradients",
            "Open circles are read off the query tokens of the compiled transformer, one per CG step; "
            "the line is textbook CG; the dotted line is the theorem "
            "√(k(x)ᵀA⁻¹k(x))·2((√κ−1)/(√κ+1))ᵗ·‖α*‖. The circles lie on the line, and both stay under "
            "the bound. Where they part, near the end of an ill-conditioned run, CG itself is chaotic: "
            "the table's control column is textbook CG against itself with the supports reordered, "
            "which in exact arithmetic changes nothing.",
            [
                convergence_figure(panels),
                Table(HEADER, [row(f) for f in findings]),
            ],
        ),
        Section(
            "The residual stream, layer by layer",
            f"One prompt with κ = {findings[1].condition:g}. Each step takes seven layers: mat-vec, "
            "pᵀAp, two for its reciprocal, the update of r, rᵀr, the new direction. Watch α fill at "
            "the support, r and p change places as they are rewritten, and f settle at the query at "
            "the marks f1, f2, …; grey is an exact zero.",
            [stream_figure(tokens, layers, marks)],
        ),
        demo_softmax.section(softmax),
        demo_trained.section(trained),
        Section(
            "What was compiled first",
            "An instance of the generic transformer: linear attention, ReLU MLP, no normalisation. "
            "Weights do not depend on the number of supports.",
            [Table(list(size), [[f"{v:,.6g}" for v in size.values()]])],
        ),
    ]
    write_page(
        path,
        "A transformer that runs conjugate gradients",
        "A solver written once, compiled to the weights of an ordinary linear-attention transformer, "
        "and read back while it solves kernel ridge regression in its forward pass.",
        sections,
        f"{PROMPTS} prompts per condition number, {SUPPORTS} supports, {FEATURES} features, "
        f"λ = {RIDGE:g}, float64, seed {seed}; errors are the worst over prompts and queries.",
    )
