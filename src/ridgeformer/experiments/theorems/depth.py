"""Depth and accuracy: how fast each solver's predictions reach kernel ridge regression."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention
from ridgeformer.experiments.theorems.base import RATES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled, prediction_errors
from ridgeformer.experiments.theorems.hard import (
    NEARLY,
    hard_for_krylov,
    met,
    prompt_of_modes,
)
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    GradientDescent,
    HeavyBall,
    Solver,
    krr,
    solve,
)
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.theory.depth import Factor

STEPS = Axes("step", "|f_t − f*|, worst query")


class CGRate(Theorem):
    name = "cg-rate"
    group = RATES
    title = "Conjugate gradients converge with √κ"
    states = ("conjugate-gradients",)
    measured = "The predictions are those that a compiled transformer holds after t steps."
    see = (
        "The compiled model's error stays under the dotted bound at every step and condition number, and "
        "comes within a factor of two of it on the spectrum that is hardest for that step."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (8, 16) if fast else (12, 128)
        m = Measurement()

        def run(name: str, prompt: Prompt, top: float, floor: float) -> None:
            model = compiled(ConjugateGradient(), prompt, LinearAttention(top), steps=steps)
            bound = theory.cg_prediction_bound(prompt, ridge=1.0, steps=steps)
            # On random prompts CG ends sooner than the bound says, so that no step alone comes near it.
            m.by_step(name, prediction_errors(model, prompt), bound, floor, whole=True, reach=0.1)

        for condition in (10.0, 100.0, 1000.0):
            task = PrescribedSpectrum(features=8, supports=32, condition=condition)
            prompt = task.draw(prompts, seed)
            floor = 1e-10 * float(krr(prompt, ridge=1.0).abs().max())
            run(f"κ = {condition:g}", prompt, task.max_eigenvalue, floor)
            for t in range(1, steps + 1):
                hardest(m, condition, t, seed)
        settings = (
            f"3 condition numbers, {prompts} prompts of 32 supports, {steps} steps; and for each of them and "
            "each step the spectrum that is hardest for it"
        )
        return m.outcome(settings, STEPS)


def hardest(m: Measurement, condition: float, steps: int, seed: int) -> None:
    """The last of these steps on the spectrum that is worst for it, where it is known how near the bound is."""
    smallest, largest = 1.0, 2 * condition - 1
    prompt = hard_for_krylov(smallest, largest, steps, 2, seed)
    model = compiled(ConjugateGradient(), prompt, LinearAttention(largest), steps=steps)
    bound = theory.cg_prediction_bound(prompt, ridge=1.0, steps=steps)[-1]
    error = prediction_errors(model, prompt)[-1]
    reach = NEARLY * met(condition, steps)
    m.at(f"hardest, κ = {condition:g}", steps, error, bound, 1e-9, each=True, reach=reach)


class FixedRates(Theorem):
    name = "fixed-coefficient-rates"
    group = RATES
    title = "Gradient descent takes κ, Chebyshev and heavy ball √κ"
    states = ("richardson", "chebyshev", "heavy-ball")
    measured = (
        "The errors are ‖α_t − α*‖_A over ‖α*‖_A of the numerics, tuned to the extreme eigenvalues of "
        "A, on three kernels; and those of predictions for a target and a query in the mode at the upper end, "
        "where all three bounds are met at every step."
    )
    see = "All three lie under their bounds; the two accelerated bounds fall far faster."

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (20, 16) if fast else (60, 128)
        m = Measurement()
        kernels: tuple[Kernel, ...] = (Linear(), Exponential(2.0), Gaussian(1.0))
        methods: tuple[tuple[Solver, Factor], ...] = (
            (GradientDescent(), theory.richardson_factor),
            (Chebyshev(), theory.chebyshev_factor),
            (HeavyBall(), theory.heavy_ball_factor),
        )
        for kernel in kernels:
            task = KernelDraw(kernel=kernel, features=4, supports=24, scale=0.7)
            prompt = task.draw(prompts, seed)
            for solver, factor in methods:
                error, condition = a_norm_errors(solver, prompt, kernel, steps)
                bound = np.array([factor(condition, t) for t in range(steps + 1)])[:, None]
                if isinstance(kernel, Gaussian):
                    # At step 0 both are 1. Random prompts need not have the worst modes, which other theorems have.
                    # Heavy ball errs as much as its bound at the upper end alone, where random prompts have little.
                    reach = 0.1 if isinstance(solver, HeavyBall) else 0.2
                    m.by_step(solver.name, error, bound, 1e-9, reach=reach)
                else:
                    m.compare(error[1:], bound[1:], 1e-9)
        for condition, (solver, factor) in product((3.0, 30.0), methods):
            upper_end(m, solver, factor, condition, steps, seed)
        settings = (
            f"3 kernels, {prompts} prompts of 24 supports, {steps} steps, λ = 0.5; and the mode at the upper end "
            "for 2 condition numbers"
        )
        return m.outcome(settings, Axes("step", "‖α_t − α*‖_A / ‖α*‖_A"))


def upper_end(
    m: Measurement, solver: Solver, factor: Factor, condition: float, steps: int, seed: int
) -> None:
    """Target and query in the mode of the largest of two eigenvalues."""
    ends = torch.tensor([2 * condition - 1, 1.0], dtype=torch.float64)  # of K, and λ = 1
    upper = torch.tensor([1.0, 0.0], dtype=torch.float64)
    prompt = prompt_of_modes(ends, upper, upper, 2, seed)
    found = solve(solver, prompt, steps=steps, ridge=1.0).predictions
    bound = theory.tuned_prediction_bound(factor, prompt, ridge=1.0, steps=steps)
    name = f"{solver.name}, upper end, κ = {condition:g}"
    m.compare_steps(name, (found - krr(prompt, ridge=1.0)).abs(), bound, 1e-5, reach=NEARLY)


def a_norm_errors(
    solver: Solver, prompt: Prompt, kernel: Kernel, steps: int, ridge: float = 0.5
) -> tuple[np.ndarray, float]:
    """Relative A-norm errors [steps + 1, batch], and the condition number of all prompts together."""
    lo, hi = EagerMachine(prompt, kernel, ridge).interval("none")
    run = solve(solver, prompt, steps=steps, ridge=ridge, kernel=kernel, states=True)
    error = theory.energy_error(run.states["alpha"], prompt, ridge=ridge, kernel=kernel)
    return (error / error[:1])[..., 0].numpy(), hi / lo  # it starts from α = 0


class ChebyshevWorstMode(Theorem):
    name = "chebyshev-worst-mode"
    group = RATES
    title = "Chebyshev's worst mode is the theorem's, exactly"
    states = ("chebyshev",)
    measured = (
        "The largest residual of t steps over systems with an eigenvalue at every extremum must be the "
        "factor itself."
    )
    see = "Measured and predicted worst modes coincide to round-off."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, steps = Measurement(), 12 if fast else 40
        for condition in (3.0, 30.0, 300.0):
            # k copies of one eigenvalue problem: a diagonal K, one eigenvalue per support.
            lo, hi = 1.0, condition
            extrema = np.cos(np.pi * np.arange(steps + 1)[:, None] / np.arange(1, steps + 1))
            values = np.unique(np.clip((hi + lo) / 2 + (hi - lo) / 2 * extrema, lo, hi))
            roots = torch.from_numpy(np.diag(np.sqrt(values - lo)))[None]
            y = torch.ones(1, len(values), 1, dtype=torch.float64)
            prompt, name = Prompt(roots, y, roots), f"κ = {condition:g}"
            run = solve(Chebyshev(), prompt, steps=steps, ridge=1.0, interval=(lo, hi), states=True)
            alpha = run.states["alpha"][:, 0, :, 0].numpy()
            for t, worst in enumerate(np.abs(1 - values * alpha).max(1)):
                factor = theory.chebyshev_factor(condition, t)
                m.at(name, t, worst, factor, 1e-6, said="theory")
        settings = f"3 condition numbers, {steps} steps, eigenvalues at every extremum"
        return m.outcome(settings, Axes("step", "worst residual"))
