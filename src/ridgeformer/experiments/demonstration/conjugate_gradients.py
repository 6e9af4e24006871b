"""The demo's first part: a compiled CG beside the textbook, the closed form and the theorem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from ridgeformer.compiler import CompiledModel, LinearAttention, compile, size_report
from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, MODEL, SOLVER
from ridgeformer.models import residual_stream, trajectory
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory import cg_prediction_bound

PROSE = Prose("demo")
CONDITIONS = (10.0, 100.0, 1000.0)
FEATURES, SUPPORTS, STEPS, PROMPTS, RIDGE = 8, 32, 10, 64, 1.0
SMALLEST = 1e-17
"""Errors of exactly 0 are drawn here."""
MEASURES = {
    "model vs textbook CG": "largest difference over steps, relative to the largest prediction",
    "textbook vs itself, reordered": "the same for textbook CG with its supports in another order",
    "model vs closed form": "largest error after the last step",
    "textbook vs closed form": "largest error after the last step",
    "theorem's bound": "the largest bound after the last step",
    "worst error ÷ bound": "largest error ÷ its bound, where the error is above round-off",
}


def compiled() -> CompiledModel:
    target = LinearAttention(max_eigenvalue=(max(CONDITIONS) - 1) * RIDGE)
    return compile(ConjugateGradient(), features=FEATURES, steps=STEPS, ridge=RIDGE, to=target)


def draw(condition: float, seed: int) -> Prompt:
    task = PrescribedSpectrum(
        features=FEATURES, supports=SUPPORTS, condition=condition, ridge=RIDGE, shape="geometric"
    )
    return task.draw(PROMPTS, seed)


@dataclass(frozen=True)
class Errors:
    """The worst over prompts and queries for one condition number, after each step."""

    model: np.ndarray
    textbook: np.ndarray
    bound: np.ndarray
    numbers: dict[str, float]
    """By measure."""

    def panel(self, title: str, axes: f.Axes, bound: str, textbook: str) -> f.Panel:
        """The model's circles on the textbook's line, and the bound."""
        steps = list(range(len(self.model)))
        model, reference, most = (
            np.maximum(v, SMALLEST).tolist() for v in (self.model, self.textbook, self.bound)
        )
        lines = [
            f.Line(bound, steps, most, bound=True, color=CONTROL),
            f.Line(textbook, steps, reference, color=SOLVER, mode="lines"),
            f.Line("compiled transformer", steps, model, color=MODEL, mode="markers"),
        ]
        return f.Panel(title, lines, axes)


def measure(model: CompiledModel, condition: float, seed: int) -> Errors:
    prompt = draw(condition, seed)
    exact = krr(prompt, ridge=RIDGE)
    largest = exact.abs().max()
    ours = trajectory(model, prompt)
    textbook = solve(ConjugateGradient(), prompt, steps=STEPS, ridge=RIDGE)
    backwards = Prompt(prompt.phi.flip(1), prompt.y.flip(1), prompt.phi_query)
    reordered = solve(ConjugateGradient(), backwards, steps=STEPS, ridge=RIDGE)
    bound = cg_prediction_bound(prompt, ridge=RIDGE, steps=STEPS)
    error = (ours.predictions - exact).abs()
    model_error, textbook_error = (t.distance(exact).amax(1) for t in (ours, textbook))
    most = bound.amax((1, 2, 3))
    values = (
        ours.distance(textbook).max() / largest,
        reordered.distance(textbook).max() / largest,
        model_error[-1],
        textbook_error[-1],
        most[-1],
        (error / bound)[error > 1e-12 * largest].max(),
    )
    numbers = dict(zip(MEASURES, map(float, values), strict=True))
    return Errors(model_error.numpy(), textbook_error.numpy(), most.numpy(), numbers)


def convergence(model: CompiledModel, seed: int, conditions: Iterable[float]) -> f.Finding:
    out, panels, rows = f.Collector(PROMPTS, seed), [], []
    axes = f.Axes("CG step", "|f_t − f*|, worst query")
    for condition in conditions:
        errors = measure(model, condition, seed)
        for name, value in errors.numbers.items():
            out.exact(name, "conjugate gradients", value, condition=condition)
        panels.append(errors.panel(f"κ = {condition:g}", axes, "theorem's bound", "textbook CG"))
        *absolute, ratio = errors.numbers.values()
        rows.append([f"{condition:g}", *(f"{v:.1e}" for v in absolute), f"{ratio:.2f}"])
    settings = {"features": FEATURES, "supports": SUPPORTS, "steps": STEPS, "ridge": RIDGE}
    return f.Finding(
        "conjugate-gradients", seed, PROMPTS, settings, MEASURES, out.numbers,
        figures=[f.Figure([panels])], tables=[f.Table(["κ", *MEASURES], rows)],
        **PROSE.titled("convergence"),
    )  # fmt: skip


def residual_streams(model: CompiledModel, condition: float, seed: int) -> f.Finding:
    """The stream at one support, the aggregator and one query of the first prompt."""
    values = residual_stream(model, draw(condition, seed)[0])[:, 0].numpy()
    streams = []
    for title, token, place in (
        ("a support token: φ stays; α, r and p are updated", 0, "data"),
        ("the aggregator: scalars come and go", SUPPORTS, "aggregator"),
        ("a query token: the prediction f converges", SUPPORTS + 1, "data"),
    ):
        labels = [
            f"{column} {', '.join(cells[:3])}".replace("inverse_rho", "1/ρ")
            .replace("rho", "ρ")
            .replace("alpha", "α")
            for column, cells in enumerate(model.sites["channels"][place])
        ]
        used = [c for c in range(values.shape[2]) if np.abs(values[:, token, c]).max() > 0]
        streams.append(f.Stream(title, values[:, token][:, used], [labels[c] for c in used]))
    marks = {
        -0.5 if entry["site"] == "embed" else int(entry["site"].split(".")[1]): f"f_{entry['step']}"
        for entry in model.sites["predictions"]
    }
    layers = ((torch.arange(len(values)) - 1) / 2).tolist()
    words, figure = PROSE.titled("stream", condition=condition), f.Heatmap(streams, layers, marks)
    return f.Finding("residual-stream", seed, 1, figures=[figure], **words)


def sizes(model: CompiledModel, seed: int) -> f.Finding:
    size = size_report(model)
    table = f.Table(list(size), [[f"{v:,.6g}" for v in size.values()]], words=0)
    settings = {name: float(value) for name, value in size.items()}
    return f.Finding("sizes", seed, 0, settings, tables=[table], **PROSE.titled("sizes"))
