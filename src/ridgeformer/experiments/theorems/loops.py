"""Looped models: one step's weights, repeated, against the bounds of the solver and written out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, LinearAttention
from ridgeformer.experiments.theorems.base import Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.experiments.theorems.hard import hard_for_fixed, hard_for_krylov, promise
from ridgeformer.experiments.theorems.sizes import parameters_of
from ridgeformer.models import trajectory
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    GradientDescent,
    HeavyBall,
    IterativeNewton,
    Solver,
    krr,
)
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory.depth import Factor

CONDITION, TOP = 20.0, 19.0
"""λ = 1, and all eigenvalues of K in [0, TOP]."""

LEAST = 1e-2
"""The least eigenvalue of K where a spectrum is hard: a query has no part in a mode of eigenvalue 0."""

Bound = Callable[[Prompt, int], Tensor]


def tuned(factor: Factor) -> Bound:
    """The bound of a method that is tuned to the whole domain, at every step."""
    interval = (1.0, 1.0 + TOP)
    return lambda prompt, steps: theory.tuned_prediction_bound(
        factor, prompt, ridge=1.0, steps=steps, interval=interval
    )


def methods() -> list[tuple[Solver, Bound]]:
    return [
        (GradientDescent(), tuned(theory.richardson_factor)),
        (HeavyBall(), tuned(theory.heavy_ball_factor)),
        (Chebyshev(), tuned(theory.chebyshev_factor)),
        (IterativeNewton(plain=True), tuned(theory.plain_newton_factor)),
        (
            ConjugateGradient(),
            lambda prompt, steps: theory.cg_prediction_bound(prompt, ridge=1.0, steps=steps),
        ),
    ]


class LoopedModels(Theorem):
    name = "looped-models"
    title = "One step's weights serve every number of steps"
    states = ("looped-models",)
    measured = (
        "One looped model of each solver runs T = 1, 2, … steps. Its error is measured against the solver's "
        "bound at t = T, its distance from the model that is compiled for T steps against both "
        "certificates, and its parameters must be those of one step. The reciprocals of Chebyshev's "
        "recurrence are made too small by ε on purpose."
    )
    see = (
        "Errors of five looped models, each of one file, under the bounds of their solvers at t = T, on "
        "prompts for which these are met or nearly so."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (40, 8) if fast else (200, 64)
        m = Measurement()
        task = PrescribedSpectrum(features=4, supports=12, condition=CONDITION)
        drawn = task.draw(prompts, seed)
        for solver, bound in methods():
            loop = compiled(solver, drawn, LinearAttention(TOP), steps=steps, looped=True)
            against_bound(m, solver.name, loop, bound, drawn, steps)
            hard = (
                hard_for_fixed(LEAST, TOP, steps, 2, seed)
                if isinstance(solver, (GradientDescent, IterativeNewton))
                else hard_for_krylov(LEAST, TOP, 8, 2, seed)
            )
            ready = compiled(solver, hard, LinearAttention(TOP), steps=steps, looped=True)
            against_bound(m, f"{solver.name}, hard", ready, bound, hard, steps)
            for t in (1, 2, 7) if fast else (1, 2, 7, 30):
                model = compiled(solver, drawn, LinearAttention(TOP), steps=t)
                apart = (loop.predict(drawn, t) - model.predict(drawn)).abs()
                allowed = 2 * promise(model) * float(model.predict(drawn).abs().max())
                m.compare(apart, torch.full_like(apart, allowed))
                m.count(2.0 * (not sizes_agree(loop, t, drawn)))
        for condition in (3.0, 30.0, 3000.0):
            for error in (1e-2, 1e-6):
                off = theory.chebyshev_divisors(condition, steps) - disturbed(
                    condition, steps, error
                )
                m.compare(abs(off).max(), theory.divisor_error_bound(error, condition))
        settings = (
            f"5 solvers, {prompts} prompts of 12 supports with κ = {CONDITION:g} and hard ones, T up to "
            f"{steps}"
        )
        return m.outcome(settings, Axes("steps T", "|f_T − f*|, worst query"))


def against_bound(
    m: Measurement, name: str, loop: CompiledModel, bound: Bound, prompt: Prompt, steps: int
) -> None:
    """The errors of every T, of which some are runs of their own; the certificate's is added."""
    exact = krr(prompt, ridge=1.0)
    run = trajectory(loop, prompt, steps=steps)
    allowance = promise(loop) * float(run.predictions.abs().max())
    for t in (1, 2, steps // 2):  # a pass without records may sum in another order
        apart = (loop.predict(prompt, t) - run.predictions[t]).abs()
        m.compare(apart, torch.full_like(apart, 1e-3 * allowance))
    error = (run.predictions - exact).abs()
    m.by_step(name, error, bound(prompt, steps) + allowance)


def sizes_agree(loop: CompiledModel, steps: int, prompt: Prompt) -> bool:
    """Whether the loop has the parameters of its layers, and written out those of all passes but one more."""
    counted, formula = parameters_of(loop, prompt.features, prompt.outputs, gated=False)
    longer, its_formula = parameters_of(
        loop.unrolled(steps), prompt.features, prompt.outputs, gated=False
    )
    config = loop.transformer.config
    assert config.loop is not None
    more = (loop.loops(steps) - 1) * (config.loop[1] - config.loop[0])
    one = sum(weight.numel() for weight in loop.transformer.blocks[0].parameters())
    return counted == formula and longer == its_formula and longer - counted == more * one


def disturbed(condition: float, steps: int, error: float) -> list[float]:
    """The divisors as a loop finds them whose reciprocals are too small by the given part."""
    rho = (condition - 1) / (condition + 1)
    divisors = [0.5]
    for _ in range(steps - 1):
        divisors.append(1 - rho**2 / 4 * (1 - error) / divisors[-1])
    return divisors
