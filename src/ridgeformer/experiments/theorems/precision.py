"""Single precision: how far compiled models in float32 are from their solvers, and where CG stays."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler import compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.models import trajectory
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, Solver, krr, solve
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory import (
    UNIT,
    cg_round_off_bound,
    fixed_round_off_bound,
    residual_round_off_bound,
)
from ridgeformer.theory.systems import lengths, preconditioned_system
from ridgeformer.types import Trajectory

RIDGE = 1.0
SIZES = ((4, 12), (1, 2))
"""Features and supports; the first is drawn, the second has the fewest roundings to be pessimistic of."""

CONDITIONS = {True: (10.0, 1000.0), False: (10.0, 30.0, 100.0, 300.0, 1000.0)}


def drawn(size: tuple[int, int], condition: float, prompts: int, seed: int) -> tuple[Prompt, float]:
    """Prompts whose entries are float32 numbers, in float64, and a bound on λ_max(K)."""
    task = PrescribedSpectrum(features=size[0], supports=size[1], condition=condition)
    prompt = task.draw(prompts, seed).to(torch.float32).to(torch.float64)
    return prompt, task.max_eigenvalue * (1 + 1e-6)  # rounded data may exceed it a little


def run_model(solver: Solver, prompt: Prompt, top: float, steps: int, dtype: str) -> Trajectory:
    model = compile(
        solver, features=prompt.features, steps=steps, ridge=RIDGE, max_eigenvalue=top,
        dtype=dtype,  # type: ignore[arg-type]
    )  # fmt: skip
    return trajectory(model, prompt.to(getattr(torch, dtype)), states=True)


def residual_errors(solver: Solver, prompt: Prompt, alphas: Tensor, interval: Interval) -> Tensor:
    """For each step, the error of the residual y − Aα̂_s that explains the next iterate that is held."""
    system = preconditioned_system(prompt, ridge=RIDGE)
    alphas = alphas.double()
    (lo, hi), omega, found = interval, 1.0, []
    for s in range(len(alphas) - 1):
        now, before = alphas[s], alphas[max(s - 1, 0)]
        if solver.name == "chebyshev" and s:
            share = ((hi - lo) / (hi + lo)) ** 2 / (2 if s == 1 else 4)
            omega = 1 / (1 - omega * share)
        else:
            before = now
        step = 2 / (lo + hi) * (prompt.y - system @ now)
        exact = before + omega * (now - before + step)
        found.append((alphas[s + 1] - exact) * (lo + hi) / (2 * omega))
    return lengths(torch.stack(found), 2)


class SinglePrecision(Theorem):
    name = "float32-floor"
    title = "In float32 a model parts from its solver by no more than this"
    statement = (
        "|f̂_T − f_T| ≤ |φ(x)|·e·C·Σ<sub>s&lt;T</sub> max<sub>σ</sub>√(σ−λ)|R<sub>T,s</sub>(σ)| + "
        "γ<sub>k+p</sub>|φ(x)|ᵀ|Φ|ᵀ|α̂_T| for compiled gradient descent and Chebyshev, "
        "e = max<sub>s</sub> γ<sub>7</sub>‖y‖ + (γ<sub>7</sub>+u)(λ+L/2)(‖α̂<sub>s</sub>‖+‖α̂<sub>s−1</sub>‖) + "
        "γ<sub>k+p+7</sub>‖|Φ||Φ|ᵀ|α̂<sub>s</sub>|‖, γ<sub>n</sub> = nu/(1−nu), u = 2<sup>−24</sup>; and the residual of "
        "each step carries no more than its part of e."
    )
    see = "Distance to the exact recurrence against κ, under the bound; in float64 (control) nothing is left."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps, unit = 16 if fast else 128, 12 if fast else 40, UNIT["float32"]
        solvers: tuple[Solver, ...] = (GradientDescent(), Chebyshev())
        found, lines = [], []
        for size in SIZES:
            for solver in solvers:
                worst, bounds, control = [], [], []
                for condition in CONDITIONS[fast]:
                    prompt, top = drawn(size, condition, prompts, seed)
                    interval = (RIDGE, RIDGE + top)
                    run = run_model(solver, prompt, top, steps, "float32")
                    alphas = run.states["alpha"]
                    local = residual_errors(solver, prompt, alphas, interval)
                    carried = residual_round_off_bound(prompt, alphas, interval=interval, unit=unit)
                    exact = solve(solver, prompt, steps=steps, ridge=RIDGE, interval=interval)
                    error = (run.predictions - exact.predictions).abs()
                    bound = fixed_round_off_bound(
                        solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=unit
                    )
                    found.append(ratios(local.numpy(), carried.numpy(), 0.0))
                    found.append(ratios(error.numpy(), bound.numpy(), 0.0))
                    if size == SIZES[0]:
                        double = run_model(solver, prompt, top, steps, "float64").predictions
                        worst.append(float(error.max()))
                        bounds.append(float(bound.max()))
                        control.append(float((double - exact.predictions).abs().max()))
                if size == SIZES[0]:
                    lines += [
                        Line(solver.name, CONDITIONS[fast], worst),
                        Line(f"{solver.name}, bound", CONDITIONS[fast], bounds, bound=True),
                        Line(f"{solver.name}, float64", CONDITIONS[fast], control),
                    ]
        settings = f"2 solvers, {len(CONDITIONS[fast])} condition numbers, {prompts} prompts, {steps} steps"
        axes = Axes("κ", "|f̂_t − f_t|, worst step", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


class SinglePrecisionCG(Theorem):
    name = "float32-cg"
    title = "CG in float32 knows how good it is"
    statement = (
        "|f̂_t − f*| ≤ ‖A⁻¹k(x)‖·‖y − Aα̂_t‖ + Σ<sub>s&lt;t</sub> u|f̂<sub>s</sub>| + M(u‖α̂<sub>s</sub>‖ + γ<sub>k+p+4</sub>G<sub>s</sub>), "
        "M = ‖|Φ||φ(x)|‖, G<sub>s</sub> = (‖α̂<sub>s+1</sub> − α̂<sub>s</sub>‖ + u‖α̂<sub>s</sub>‖)/(1 − γ<sub>2</sub>), for compiled CG and "
        "t ≥ 1, whatever round-off did to its coefficients. It is a statement after the fact: how small "
        "‖y − Aα̂_t‖ becomes is measured here, not proved."
    )
    see = "Error after convergence against κ, its bound, and the residual that is left, beside u·κ·‖y‖."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, unit = 16 if fast else 128, UNIT["float32"]
        found = []
        lines: dict[str, list[float]] = {
            name: [] for name in ("cg", "cg, bound", "residual", "u·κ·‖y‖")
        }
        for size in SIZES:
            for condition in CONDITIONS[fast]:
                prompt, top = drawn(size, condition, prompts, seed)
                run = run_model(ConjugateGradient(), prompt, top, 3 * size[0] + 2, "float32")
                alphas = run.states["alpha"].double()
                error = (run.predictions - krr(prompt, ridge=RIDGE)).abs()
                bound = cg_round_off_bound(prompt, alphas, run.predictions, ridge=RIDGE, unit=unit)
                found.append(ratios(error[1:].numpy(), bound[1:].numpy(), 0.0))
                if size == SIZES[0]:
                    system = preconditioned_system(prompt, ridge=RIDGE)
                    left = lengths(prompt.y - system @ alphas[-1], 1)
                    lines["cg"].append(float(error[-1].max()))
                    lines["cg, bound"].append(float(bound[-1].max()))
                    lines["residual"].append(float(left.max()))
                    lines["u·κ·‖y‖"].append(unit * condition * float(lengths(prompt.y, 1).max()))
        drawn_lines = [
            Line(name, CONDITIONS[fast], values, name not in ("cg", "residual"))
            for name, values in lines.items()
        ]
        settings = f"{len(CONDITIONS[fast])} condition numbers, {prompts} prompts, 3p + 2 steps"
        axes = Axes("κ", "|f̂_T − f*|", log_x=True)
        return Outcome(settings, np.concatenate(found), drawn_lines, axes)
