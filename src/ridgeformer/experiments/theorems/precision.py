"""Single precision: how far compiled models in float32 are from their solvers, and where CG stays."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention
from ridgeformer.compiler.job import Dtype
from ridgeformer.experiments.theorems.base import (
    DOMINATES,
    ERRORS,
    Axes,
    Measurement,
    Outcome,
    Theorem,
)
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


def run_model(
    solver: Solver, prompt: Prompt, top: float, steps: int, dtype: Dtype, *, looped: bool = False
) -> Trajectory:
    to = LinearAttention(top, None if solver.precondition == "none" else Exact())
    model = compiled(solver, prompt, to, steps=steps, ridge=RIDGE, dtype=dtype, looped=looped)
    given = prompt.to(getattr(torch, dtype))
    return trajectory(model, given, states=True, steps=steps if looped else None)


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
    group = ERRORS
    title = "In float32 a model parts from its solver by no more than this"
    states = ("round-off-fixed",)
    measured = (
        "Compiled models in float32 are compared with the exact recurrence, and the residual of each "
        "step carries no more than its part of e, as loops too but for Chebyshev's. What they hold bounds their "
        "distance from f*."
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
            carried = theory.residual_round_off_bound(
                solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=unit
            )
            m.compare(local, carried)
            exact = solve(solver, prompt, steps=steps, ridge=RIDGE, interval=interval).predictions
            error = (run.predictions - exact).abs()
            bound = theory.fixed_round_off_bound(
                solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=unit
            )
            if size == SIZES[0]:
                m.at(solver.name, condition, error, bound, reach=3e-3)
                double = run_model(solver, prompt, top, steps, "float64").predictions
                m.draw(f"{solver.name}, float64", condition, (double - exact).abs())
            else:
                m.compare(error, bound, part=f"predictions of {solver.name}", reach=0.01)
                held = (run.predictions - theory.cross(prompt) @ alphas.double()).abs()
                reading = theory.reading_round_off_bound(prompt, alphas, unit=unit)
                m.compare(held, reading, part=f"reading of {solver.name}", reach=0.3)
        for own in (*solvers, Chebyshev("jacobi")):
            for looped in (False, True):
                a_posteriori(m, own, prompts, seed, looped=looped)
        for solver in (GradientDescent(), HeavyBall()):
            compare_passes(m, solver, prompts, steps, seed)
        for solver in solvers:
            for term, (given, top, taken) in single_terms(seed).items():
                compare_term(m, solver, term, given, top, taken)
        settings = (
            f"3 solvers, {len(conditions)} condition numbers, {prompts} prompts, {steps} steps"
        )
        return m.outcome(settings, Axes("κ", "|f̂_t − f_t|, worst step", log_x=True))


def compare_passes(m: Measurement, solver: Solver, prompts: int, steps: int, seed: int) -> None:
    """Every pass of a loop in float32, which carries what it remembers, and what it predicts."""
    for size, condition in product(SIZES, (10.0, 300.0)):
        prompt, top = drawn(size, condition, prompts, seed)
        interval = (RIDGE, RIDGE + top)
        run = run_model(solver, prompt, top, steps, "float32", looped=True)
        alphas, unit = run.states["alpha"], theory.UNIT["float32"]
        local = residual_errors(solver, prompt, alphas, interval)
        bound = theory.residual_round_off_bound(
            solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=unit, looped=True
        )
        m.compare(local, bound, part=f"{solver.name}, passes of a loop", reach=0.05)
        exact = solve(solver, prompt, steps=steps, ridge=RIDGE, interval=interval).predictions
        error = (run.predictions - exact).abs()
        bound = theory.fixed_round_off_bound(
            solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=unit, looped=True
        )
        m.compare(error, bound)


def a_posteriori(m: Measurement, solver: Solver, prompts: int, seed: int, *, looped: bool) -> None:
    """The distance from f* of what a model in float32 predicts, and what the coefficients that it holds say."""
    prompt, top = drawn(SIZES[0], 30.0, prompts, seed)
    run = run_model(solver, prompt, top, 12, "float32", looped=looped)
    alphas = run.states["alpha"].double()
    left = prompt.y - preconditioned_system(prompt, ridge=RIDGE) @ alphas
    none = torch.zeros_like(lengths(left, 2))
    bound = theory.residual_prediction_bound(left, none, prompt, ridge=RIDGE)
    bound = bound + theory.reading_round_off_bound(prompt, alphas, unit=theory.UNIT["float32"])
    error = (run.predictions - krr(prompt, ridge=RIDGE)).abs()
    part = f"{solver.name} {solver.precondition}, {'a loop, ' * looped}from f*"
    m.compare(error[1:], bound[1:], part=part, reach=0.5)


REACHED_BY_TERMS = {"targets": 0.1, "updates": 0.1, "mat-vecs": 0.05}
"""What each term must reach where it is nearly all of the bound; of long sums the least, as errors cancel."""


def single_terms(seed: int) -> dict[str, tuple[Prompt, float, int]]:
    """Prompts on which one term is nearly all of e, with a bound on λ_max(K) and the steps to take."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(128, 1, 1, generator=generator, dtype=torch.float64)
    near = 1e-3 * torch.randn(128, 1, 1, generator=generator, dtype=torch.float64)
    # Supports of one feature and one target: all terms of a sum are rounded to the same side.
    place = 0.5 + 0.5 * torch.rand(128, 1, 1, generator=generator, dtype=torch.float64)
    many, alike = place.expand(-1, 60, -1), y.expand(-1, 60, -1)
    small, large = (
        prompt.to(torch.float32).to(torch.float64)
        for prompt in (Prompt(near, y, near), Prompt(many, alike, place))
    )
    top = float(large.phi.square().sum((1, 2)).max()) * (1 + 1e-6)
    return {
        "targets": (small, 100.0, 1),
        "updates": (small, 1000.0, 80),
        "mat-vecs": (large, top, 4),
    }


def compare_term(
    m: Measurement, solver: Solver, term: str, prompt: Prompt, top: float, steps: int
) -> None:
    """Compares the residual errors, and judges the term where it is nearly all of their bound."""
    interval = (RIDGE, RIDGE + top)
    alphas = run_model(solver, prompt, top, steps, "float32").states["alpha"]
    local = residual_errors(solver, prompt, alphas, interval)
    terms = theory.residual_round_off_terms(
        solver, prompt, alphas, ridge=RIDGE, interval=interval, unit=theory.UNIT["float32"]
    )
    bound = torch.stack(list(terms.values())).sum(0)
    m.compare(local, bound)
    mine = terms[term] >= DOMINATES * bound
    m.compare(
        local[mine], bound[mine], part=f"{term} of {solver.name}", reach=REACHED_BY_TERMS[term]
    )


class SinglePrecisionCG(Theorem):
    name = "float32-cg"
    group = ERRORS
    title = "CG in float32 knows how good it is"
    states = ("round-off-cg",)
    measured = (
        "Compiled models in float32, for t ≥ 1, as loops too. How small ‖y − Aα̂_t‖ becomes is measured here, "
        "not proved."
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
            m.compare(error[1:], bound[1:], part="error", reach=0.5)
            gap = (run.predictions - theory.cross(prompt) @ alphas).abs()
            parted = theory.cg_gap_bound(prompt, alphas, run.predictions, unit=unit)
            m.compare(gap[1:], parted[1:])
            compare_loop(m, prompt, top, 3 * size[0] + 2)
            if size == SIZES[0]:
                system = preconditioned_system(prompt, ridge=RIDGE)
                left = lengths(prompt.y - system @ alphas[-1], 1)
                m.draw("cg", condition, error[-1])
                m.draw_bound("cg", condition, bound[-1])
                m.draw("residual", condition, left)
                size_of_target = float(lengths(prompt.y, 1).max())
                m.draw_bound("", condition, unit * condition * size_of_target, "u·κ·‖y‖")
        compare_gaps(m, seed)
        settings = f"{len(conditions)} condition numbers, {prompts} prompts, 3p + 2 steps"
        return m.outcome(settings, Axes("κ", "|f̂_T − f*|", log_x=True))


def compare_loop(m: Measurement, prompt: Prompt, top: float, steps: int) -> None:
    """A loop reads its predictions off the coefficients, and parts from them by no more."""
    run = run_model(ConjugateGradient(), prompt, top, steps, "float32", looped=True)
    alphas = run.states["alpha"].double()
    gap = (run.predictions - theory.cross(prompt) @ alphas).abs()
    bound = theory.cg_gap_bound(prompt, alphas, run.predictions, unit=theory.UNIT["float32"])
    m.compare(gap[1:], bound[1:])


def compare_gaps(m: Measurement, seed: int) -> None:
    """One support: the sums are short, and from the second step on what is held outweighs what is added."""
    generator = torch.Generator().manual_seed(seed)
    phi, y = (torch.randn(256, 1, 1, generator=generator, dtype=torch.float64) for _ in range(2))
    query = torch.randn(256, 4, 1, generator=generator, dtype=torch.float64)
    prompt = Prompt(3 * phi, y, query).to(torch.float32).to(torch.float64)
    top = float(prompt.phi.square().max()) * (1 + 1e-6)
    run = run_model(ConjugateGradient(), prompt, top, 4, "float32")
    alphas = run.states["alpha"].double()
    gap = (run.predictions - theory.cross(prompt) @ alphas).abs()
    bound = theory.cg_gap_bound(prompt, alphas, run.predictions, unit=theory.UNIT["float32"])
    for t, reach in ((1, 0.2), (2, 0.2), (4, 0.15)):
        m.compare(gap[t], bound[t], part=f"gap, t = {t}", reach=reach)
