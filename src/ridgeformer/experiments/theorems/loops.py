"""Looped models: one step's weights, repeated, against the bounds of the solver and written out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, LinearAttention
from ridgeformer.experiments.theorems.base import COMPILED, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.experiments.theorems.hard import (
    NEARLY,
    hard_for_fixed,
    hard_for_krylov,
    met,
    promise,
)
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

LEAST = 1e-4
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
    group = COMPILED
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
            # Random prompts are not the hardest of their steps.
            against_bound(m, solver.name, loop, bound, drawn, steps, whole=True, reach=0.1)
            hardest(m, solver, bound, steps, seed)
            for t in (1, 2, 7) if fast else (1, 2, 7, 30):
                model = compiled(solver, drawn, LinearAttention(TOP), steps=t)
                apart = (loop.predict(drawn, t) - model.predict(drawn)).abs()
                allowed = 2 * promise(model) * float(model.predict(drawn).abs().max())
                m.compare(apart, torch.full_like(apart, allowed))
                m.count(2.0 * (not sizes_agree(loop, t, drawn)))
        for condition, reach in DIVISORS.items():
            for error in (1e-2, 1e-6):
                off = theory.chebyshev_divisors(condition, steps) - disturbed(
                    condition, steps, error
                )
                part = f"divisors, κ = {condition:g}, ε = {error:g}"
                most = theory.divisor_error_bound(error, condition)
                m.compare(abs(off).max(), most, part=part, reach=reach)
        settings = (
            f"5 solvers, {prompts} prompts of 12 supports with κ = {CONDITION:g} and hard ones, T up to "
            f"{steps}"
        )
        return m.outcome(settings, Axes("steps T", "|f_T − f*|, worst query"))


HEAVY_BALL = 0.25
"""Of its bound heavy ball reaches from .54, in its first step, down to .27."""
DIVISORS = {3.0: 0.04, 30.0: 0.13, 3000.0: 0.095}
"""By κ what must be reached of the bound on Chebyshev's divisors, two thirds of what is: the bound is for the
limit of many steps."""
WORST_CG = 8
"""The hardest spectra of CG are tried up to so many steps: each has a model of its own."""


def hardest(m: Measurement, solver: Solver, bound: Bound, steps: int, seed: int) -> None:
    """A looped model on prompts that are the worst for every step: with fixed coefficients the same two."""
    name, to = f"{solver.name}, hard", LinearAttention(TOP)
    if not isinstance(solver, ConjugateGradient):
        ends = [hard_for_fixed(LEAST, TOP, parity, 2, seed) for parity in (0, 1)]
        prompt = Prompt(*(torch.cat(parts) for parts in zip(*map(fields_of, ends), strict=True)))
        loop = compiled(solver, prompt, to, steps=steps, looped=True)
        reach = HEAVY_BALL if isinstance(solver, HeavyBall) else 0.95
        against_bound(m, name, loop, bound, prompt, steps, reach=reach)
        return
    for t in range(1, WORST_CG + 1):
        prompt = hard_for_krylov(LEAST, TOP, t, 2, seed)
        loop = compiled(solver, prompt, to, steps=WORST_CG, looped=True)
        error = (loop.predict(prompt, t) - krr(prompt, ridge=1.0)).abs()
        reach = NEARLY * met((1 + TOP) / (1 + LEAST), t)
        m.at(name, t, error, bound(prompt, t)[-1], 1e-9, each=True, reach=reach)


def fields_of(prompt: Prompt) -> tuple[Tensor, Tensor, Tensor]:
    return prompt.phi, prompt.y, prompt.phi_query


def against_bound(
    m: Measurement,
    name: str,
    loop: CompiledModel,
    bound: Bound,
    prompt: Prompt,
    steps: int,
    *,
    reach: float,
    whole: bool = False,
) -> None:
    """The errors of every T, of which some are runs of their own; the certificate's is added."""
    exact = krr(prompt, ridge=1.0)
    run = trajectory(loop, prompt, steps=steps)
    allowance = promise(loop) * float(run.predictions.abs().max())
    for t in (1, 2, steps // 2):  # a pass without records may sum in another order
        apart = (loop.predict(prompt, t) - run.predictions[t]).abs()
        m.compare(apart, torch.full_like(apart, 1e-3 * allowance))
    error, most = (run.predictions - exact).abs(), bound(prompt, steps) + allowance
    m.compare(error[1:], most[1:])
    # Steps at which the allowance is most of the bound say nothing of it.
    m.by_step(name, error, most, 100 * allowance, reach=reach, whole=whole)


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
