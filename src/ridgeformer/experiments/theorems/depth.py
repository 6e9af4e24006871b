"""Depth and accuracy: how fast each solver's predictions reach kernel ridge regression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.experiments.theorems.hard import hard_for_krylov
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    GradientDescent,
    HeavyBall,
    Solver,
    krr,
    krr_coefficients,
    solve,
)
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt

STEPS = Axes("step", "|f_t − f*|, worst query")


class CGRate(Theorem):
    name = "cg-rate"
    title = "Conjugate gradients converge with √κ"
    states = ("conjugate-gradients",)
    measured = "The predictions are those that a compiled transformer holds after t steps."
    see = (
        "The compiled model's error stays under the dotted bound at every step and condition number, and "
        "meets it at the last step of the hardest spectrum."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (8, 16) if fast else (12, 128)
        collected, lines = [], []
        for condition in (10.0, 100.0, 1000.0):
            task = PrescribedSpectrum(features=8, supports=32, condition=condition)
            prompt = task.draw(prompts, seed)
            model = compile(
                ConjugateGradient(),
                features=8,
                steps=steps,
                ridge=1.0,
                to=LinearAttention(task.max_eigenvalue),
            )
            exact = krr(prompt, ridge=1.0)
            error = (trajectory(model, prompt).predictions - exact).abs().numpy()
            bound = theory.cg_prediction_bound(prompt, ridge=1.0, steps=steps).numpy()
            collected.append(ratios(error[1:], bound[1:], 1e-10 * float(exact.abs().max())))
            lines += curves(f"κ = {condition:g}", error, bound)
        hard = hard_for_krylov(1.0, 19.0, steps, 4, seed)
        model = compile(
            ConjugateGradient(),
            features=steps + 1,
            steps=steps,
            ridge=1.0,
            to=LinearAttention(20.0),
        )
        error = (trajectory(model, hard).predictions - krr(hard, ridge=1.0)).abs().numpy()
        bound = theory.cg_prediction_bound(hard, ridge=1.0, steps=steps).numpy()
        collected.append(ratios(error[1:], bound[1:], 1e-9))
        lines += curves("hardest, κ = 10", error, bound)
        settings = (
            f"3 condition numbers, {prompts} prompts of 32 supports, {steps} steps; and the spectrum "
            f"that is hardest for {steps} steps"
        )
        return Outcome(settings, np.concatenate(collected), lines, STEPS)


def curves(name: str, error: np.ndarray, bound: np.ndarray, first: int = 0) -> list[Line]:
    x = list(range(first, first + len(error)))
    worst, most = (np.maximum(v.reshape(len(v), -1).max(1), 1e-17) for v in (error, bound))
    return [Line(name, x, worst.tolist()), Line(f"{name}, bound", x, most.tolist(), bound=True)]


class FixedRates(Theorem):
    name = "fixed-coefficient-rates"
    title = "Gradient descent takes κ, Chebyshev and heavy ball √κ"
    states = ("richardson", "chebyshev", "heavy-ball")
    measured = (
        "The errors are ‖α_t − α*‖_A over ‖α*‖_A of the numerics, tuned to the extreme eigenvalues of "
        "A, on three kernels."
    )
    see = "All three lie under their bounds; the two accelerated bounds fall far faster."

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (20, 16) if fast else (60, 128)
        collected, lines = [], []
        kernels: list[tuple[str, Kernel]] = [
            ("linear", Linear()),
            ("exponential", Exponential(2.0)),
            ("gaussian", Gaussian(1.0)),
        ]
        for label, kernel in kernels:
            prompt = KernelDraw(kernel=kernel, features=4, supports=24, scale=0.7).draw(
                prompts, seed
            )
            for solver, factor in methods():
                error, condition = a_norm_errors(solver, prompt, kernel, steps)
                bound = np.array([factor(condition, t) for t in range(steps + 1)])[:, None]
                collected.append(ratios(error[1:], bound[1:], 1e-9))  # at step 0 both are 1
                if label == "gaussian":
                    lines += curves(solver.name, error, np.broadcast_to(bound, error.shape))
        settings = f"3 kernels, {prompts} prompts of 24 supports, {steps} steps, λ = 0.5"
        axes = Axes("step", "‖α_t − α*‖_A / ‖α*‖_A")
        return Outcome(settings, np.concatenate(collected), lines, axes)


def methods() -> tuple[tuple[Solver, Callable[[float, int], float]], ...]:
    """The solvers, each with its factor as a function of the condition number and the steps."""
    return (
        (GradientDescent(), lambda condition, t: theory.richardson_rate(condition) ** t),
        (Chebyshev(), theory.chebyshev_factor),
        (HeavyBall(), theory.heavy_ball_factor),
    )


def a_norm_errors(
    solver: Solver, prompt: Prompt, kernel: Kernel, steps: int, ridge: float = 0.5
) -> tuple[np.ndarray, float]:
    """Relative A-norm errors [steps + 1, batch], and the condition number of all prompts together."""
    machine = EagerMachine(prompt, kernel, ridge)
    lo, hi = machine.interval("none")
    run = solve(solver, prompt, steps=steps, ridge=ridge, kernel=kernel, states=True)
    exact = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    system = machine.dense_system()

    def a_norm(v: object) -> np.ndarray:
        value: np.ndarray = ((v * (system @ v)).sum((-1, -2))).sqrt().numpy()  # type: ignore[operator]
        return value

    error = a_norm(run.states["alpha"] - exact) / a_norm(exact)
    return error, hi / lo


class ChebyshevWorstMode(Theorem):
    name = "chebyshev-worst-mode"
    title = "Chebyshev's worst mode is the theorem's, exactly"
    states = ("chebyshev",)
    measured = (
        "The largest residual of t steps over systems with an eigenvalue at every extremum must be the "
        "factor itself."
    )
    see = "Measured and predicted worst modes coincide to round-off."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        collected, lines = [], []
        steps = 12 if fast else 40
        for condition in (3.0, 30.0, 300.0):
            # k copies of one eigenvalue problem: a diagonal K, one eigenvalue per support.
            lo, hi = 1.0, condition
            extrema = np.cos(np.pi * np.arange(steps + 1)[:, None] / np.arange(1, steps + 1))
            values = np.unique(np.clip((hi + lo) / 2 + (hi - lo) / 2 * extrema, lo, hi))
            roots = torch.from_numpy(np.diag(np.sqrt(values - lo)))[None]
            y = torch.ones(1, len(values), 1, dtype=torch.float64)
            prompt = Prompt(roots, y, roots)
            run = solve(Chebyshev(), prompt, steps=steps, ridge=1.0, interval=(lo, hi), states=True)
            alpha = run.states["alpha"][:, 0, :, 0].numpy()
            measured = np.abs(1 - values * alpha).max(1)
            bound = np.array(
                [float(theory.chebyshev_factor(condition, t)) for t in range(steps + 1)]
            )
            collected.append(ratios(measured, bound, 1e-6))
            lines += [
                Line(f"κ = {condition:g}", list(range(steps + 1)), measured.tolist()),
                Line(f"κ = {condition:g}, theory", list(range(steps + 1)), bound.tolist(), True),
            ]
        settings = f"3 condition numbers, {steps} steps, eigenvalues at every extremum"
        return Outcome(settings, np.concatenate(collected), lines, Axes("step", "worst residual"))
