"""Single precision: how far compiled models in float32 are from their solvers, and where CG stays."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention
from ridgeformer.compiler.job import Dtype
from ridgeformer.experiments.theorems.base import Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.models import trajectory
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    GradientDescent,
    HeavyBall,
    Solver,
    krr,
    solve,
)
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import PrescribedSpectrum, Prompt
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


def run_model(solver: Solver, prompt: Prompt, top: float, steps: int, dtype: Dtype) -> Trajectory:
    model = compiled(solver, prompt, LinearAttention(top), steps=steps, ridge=RIDGE, dtype=dtype)
    return trajectory(model, prompt.to(getattr(torch, dtype)), states=True)


def residual_errors(solver: Solver, prompt: Prompt, alphas: Tensor, interval: Interval) -> Tensor:
    """For each step, the error of the residual y − Aα̂_s that explains the next iterate that is held."""
    system = preconditioned_system(prompt, ridge=RIDGE)
    alphas = alphas.double()
    weights = theory.semi_iteration_weights(solver, steps=len(alphas) - 1, tuned=interval)
    centre, errors = sum(interval) / 2, []
    for s, (omega, remembers) in enumerate(weights):
        now = alphas[s]
        before = alphas[max(s - 1, 0)] if remembers else now
        exact = before + omega * (now - before + (prompt.y - system @ now) / centre)
        errors.append((alphas[s + 1] - exact) * centre / omega)
    return lengths(torch.stack(errors), 2)


class SinglePrecision(Theorem):
    name = "float32-floor"
    title = "In float32 a model parts from its solver by no more than this"
    states = ("round-off-fixed",)
    measured = (
        "Compiled models in float32 are compared with the exact recurrence, and the residual of each "
        "step carries no more than its part of e."
    )
    see = "Distance to the exact recurrence against κ, under the bound; in float64 (control) nothing is left."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps, unit = 16 if fast else 128, 12 if fast else 40, theory.UNIT["float32"]
        solvers: tuple[Solver, ...] = (GradientDescent(), Chebyshev(), HeavyBall())
        m, conditions = Measurement(), CONDITIONS[fast]
        for size, solver, condition in product(SIZES, solvers, conditions):
            prompt, top = drawn(size, condition, prompts, seed)
            interval = (RIDGE, RIDGE + top)
            run = run_model(solver, prompt, top, steps, "float32")
            alphas = run.states["alpha"]
            local = residual_errors(solver, prompt, alphas, interval)
            carried = theory.residual_round_off_bound(prompt, alphas, interval=interval, unit=unit)
            m.compare(local, carried)
            exact = solve(solver, prompt, steps=steps, ridge=RIDGE, interval=interval).predictions
            error = (run.predictions - exact).abs()
            bound = theory.fixed_round_off_bound(
                solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=unit
            )
            if size == SIZES[0]:
                m.at(solver.name, condition, error, bound, reach=0.003)
                double = run_model(solver, prompt, top, steps, "float64").predictions
                m.draw(f"{solver.name}, float64", condition, (double - exact).abs())
            else:
                m.compare(error, bound)
        settings = (
            f"3 solvers, {len(conditions)} condition numbers, {prompts} prompts, {steps} steps"
        )
        return m.outcome(settings, Axes("κ", "|f̂_t − f_t|, worst step", log_x=True))


class SinglePrecisionCG(Theorem):
    name = "float32-cg"
    title = "CG in float32 knows how good it is"
    states = ("round-off-cg",)
    measured = (
        "Compiled models in float32, for t ≥ 1. How small ‖y − Aα̂_t‖ becomes is measured here, not "
        "proved."
    )
    see = "Error after convergence against κ, its bound, and the residual that is left, beside u·κ·‖y‖."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, unit = 16 if fast else 128, theory.UNIT["float32"]
        m, conditions = Measurement(), CONDITIONS[fast]
        for size, condition in product(SIZES, conditions):
            prompt, top = drawn(size, condition, prompts, seed)
            run = run_model(ConjugateGradient(), prompt, top, 3 * size[0] + 2, "float32")
            alphas = run.states["alpha"].double()
            error = (run.predictions - krr(prompt, ridge=RIDGE)).abs()
            bound = theory.cg_round_off_bound(
                prompt, alphas, run.predictions, ridge=RIDGE, unit=unit
            )
            m.compare(error[1:], bound[1:])
            if size == SIZES[0]:
                system = preconditioned_system(prompt, ridge=RIDGE)
                left = lengths(prompt.y - system @ alphas[-1], 1)
                m.draw("cg", condition, error[-1])
                m.draw_bound("cg", condition, bound[-1])
                m.draw("residual", condition, left)
                size_of_target = float(lengths(prompt.y, 1).max())
                m.draw_bound("", condition, unit * condition * size_of_target, "u·κ·‖y‖")
        settings = f"{len(conditions)} condition numbers, {prompts} prompts, 3p + 2 steps"
        return m.outcome(settings, Axes("κ", "|f̂_T − f*|", log_x=True))
