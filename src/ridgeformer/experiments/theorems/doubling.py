"""Polynomials that double in degree: Newton's iteration and GD++, and the depth that each method needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention
from ridgeformer.experiments.finding import Table
from ridgeformer.experiments.theorems.base import RATES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled, prediction_errors
from ridgeformer.experiments.theorems.depth import STEPS
from ridgeformer.experiments.theorems.hard import (
    NEARLY,
    hard_for_krylov,
    promise,
    prompt_of_modes,
    scaled_error,
)
from ridgeformer.experiments.theorems.ratios import both_sides
from ridgeformer.experiments.theorems.sizes import same
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    GradientDescent,
    GradientDescentPlus,
    IterativeNewton,
    Solver,
    krr,
    solve,
)
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory.depth import Factor


@dataclass(frozen=True)
class Method:
    """A method in its compiled form, and what is known of its worst case."""

    tuned_to: Callable[[Interval], Solver]
    factor: Factor
    """The worst |f_T − f*|/(√(kᵀA⁻¹k)·‖α*‖_A) over all systems of one condition number."""
    layers: Callable[[int], int]
    """The number of layers of T steps."""
    top_sign: Callable[[int], int]
    """The sign of the residual polynomial at the upper end of the interval, relative to the lower."""
    adapts: bool = False
    """Whether the worst system depends on T, because the coefficients depend on the system."""

    def hard(self, smallest: float, largest: float, steps: int, seed: int) -> Prompt:
        """A prompt on which that many steps do as badly as they can."""
        if self.adapts:
            return hard_for_krylov(smallest, largest, steps, 2, seed)
        ends = torch.tensor([largest, smallest], dtype=torch.float64)
        y = torch.ones(2, dtype=torch.float64)
        query = torch.tensor([float(self.top_sign(steps)), 1.0], dtype=torch.float64)
        return prompt_of_modes(ends, y, query, 2, seed)


def alternating(steps: int) -> int:
    return -1 if steps % 2 else 1


METHODS = {
    "gd": Method(
        GradientDescent, theory.richardson_factor, lambda t: t + 1, alternating
    ),
    "cg": Method(
        lambda _: ConjugateGradient(), theory.chebyshev_factor, lambda t: 7 * t + 1, alternating, True
    ),
    "chebyshev": Method(
        lambda interval: Chebyshev(interval=interval), theory.chebyshev_factor, lambda t: t + 1, alternating
    ),
    "newton": Method(
        lambda interval: IterativeNewton(interval=interval), theory.newton_factor, lambda t: t + 2, lambda _: 1
    ),
    "gd++": Method(
        GradientDescentPlus, theory.gd_plus_factor, lambda t: t + 1, lambda _: -1
    ),
}  # fmt: skip

RIDGE = 1.0
TOLERANCES = (1e-3, 1e-6, 1e-9)
WORST_CG = 14
"""On its worst spectra CG amplifies round-off: with more steps than this it is no longer exact."""


class DoublingRates(Theorem):
    name = "doubling-rates"
    group = RATES
    title = "Newton's iteration doubles the degree in every layer, GD++ triples it"
    states = ("newton", "gd-plus-plus")
    measured = (
        "The predictions are those that compiled transformers hold after t steps, on random prompts and "
        "on the prompts that are worst for each method."
    )
    see = "Errors of compiled models lie under their bounds, which fall faster with every step."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, m = 8 if fast else 64, Measurement()
        methods: tuple[tuple[str, Callable[..., Solver], Factor], ...] = (
            ("newton", IterativeNewton, theory.newton_factor),
            ("newton, plain", partial(IterativeNewton, plain=True), theory.plain_newton_factor),
            ("gd++", GradientDescentPlus, theory.gd_plus_factor),
        )
        for condition in (30.0, 1e4):
            task = PrescribedSpectrum(features=6, supports=24, condition=condition, queries=4)
            to = LinearAttention(task.max_eigenvalue)
            for name, make, factor in methods:
                steps = theory.steps_needed(factor, condition, 1e-9)
                solver = make(interval=(RIDGE, RIDGE * condition))
                ends = torch.tensor([task.max_eigenvalue, 1e-9], dtype=torch.float64)
                # At the lower end alone the sign does not matter: the bound is met in every step.
                worst = prompt_of_modes(
                    ends, ends.new_tensor([0, 1]), ends.new_tensor([0, 1]), 2, seed
                )
                for prompt in (task.draw(prompts, seed), worst):
                    model = compiled(solver, prompt, to, steps=steps)
                    bound = theory.tuned_prediction_bound(
                        factor, prompt, ridge=RIDGE, steps=steps, interval=solver.interval
                    )
                    errors = prediction_errors(model, prompt)
                    allowed = promise(model) * float(krr(prompt, ridge=RIDGE).abs().max())
                    m.compare(errors[1:], bound[1:] + allowed)
                    if prompt is worst:  # but for steps at which the allowance is most of the bound
                        part, most = f"{name}, worst, κ = {condition:g}", bound + allowed
                        m.compare_steps(part, errors, most, 100 * allowed, reach=NEARLY)
                    if condition > 1e3 and prompt is not worst:
                        m.draw_steps(name, errors)
                        for t, at_step in enumerate(bound):
                            m.draw_bound(name, t, at_step)
        settings = f"2 condition numbers, {prompts} prompts of 24 supports and the worst"
        return m.outcome(settings, STEPS)


class DoublingWorstMode(Theorem):
    name = "doubling-worst-mode"
    group = RATES
    title = "Newton's worst mode is the square of Chebyshev's, exactly"
    states = ("newton", "gd-plus-plus")
    measured = (
        "The largest residual of t steps over many eigenvalues, the ends of the interval among them, must "
        "be the factor itself; and the compiled model must predict what Chebyshev's 2^{t−1} steps give."
    )
    see = "Measured and predicted worst modes coincide to round-off."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        m = Measurement()
        solvers: tuple[tuple[Solver, Factor], ...] = (
            (IterativeNewton(), theory.newton_factor),
            (IterativeNewton(plain=True), theory.plain_newton_factor),
            (GradientDescentPlus(), theory.gd_plus_factor),
        )
        for condition in (3.0, 30.0, 300.0):
            for solver, factor in solvers:
                values = np.linspace(1.0, condition, 101 if fast else 2001)
                seen = theory.residual_polynomials(solver, values, steps=8, tuned=(1.0, condition))
                name = solver.name + (", plain" if getattr(solver, "plain", False) else "")
                for t, worst in enumerate(np.abs(seen).max(1)):
                    predicted = factor(condition, t)
                    if predicted < 1e-6:  # round-off in 1 − σα
                        break
                    m.compare(worst, predicted, part=f"{name}, κ = {condition:g}, t = {t}")
                    if condition > 100:
                        m.draw(name, t, worst)
                        m.draw_bound(name, t, predicted, "theory")
            squares(m, condition, 4 if fast else 6, seed)
        settings = "3 condition numbers, 3 methods, and compiled models beside Chebyshev's steps"
        return m.outcome(settings, Axes("step", "worst residual"))


def squares(m: Measurement, condition: float, steps: int, seed: int) -> None:
    """Compiled Newton's residual is q² in a mode where Chebyshev's, after 2^{t−1} steps, is q."""
    interval, top, one = (1.0, condition), condition - 1.0, torch.ones(1, dtype=torch.float64)
    for value in (top, 0.37 * top):
        prompt = prompt_of_modes(value * one, one, one, 2, seed)
        newton = IterativeNewton(interval=interval)
        model = compiled(newton, prompt, LinearAttention(top), steps=steps)
        peer = solve(Chebyshev(interval=interval), prompt, steps=2 ** (steps - 1), ridge=RIDGE)
        exact = krr(prompt, ridge=RIDGE)
        # In a single mode f = (1 − q)·f*.
        fast, slow = (1 - predicted / exact for predicted in (model.predict(prompt), peer.final))
        m.count(1 + (fast - slow**2).abs().numpy())  # an equality, to an absolute 1e-8


class DepthLaw(Theorem):
    name = "depth-law"
    group = RATES
    title = "Depth grows like κ, like √κ, or like log κ"
    states = ("depth-law",)
    measured = (
        "Compiled models of T* steps and of one step less, on the worst system of each condition number: "
        "the first must keep ε, the second must miss it, and both errors must be the predicted ones. "
        "Models with more layers than the settings say are left to the law."
    )
    see = (
        "Layers for ε = 10⁻⁶: Newton's iteration and GD++ need a dozen layers where Chebyshev iteration "
        "needs hundreds and gradient descent would need millions."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        limit = 60 if fast else 800
        conditions = (10.0, 1e2, 1e3, 1e4, 1e6)
        m, counted = Measurement(), {}
        for name, method in METHODS.items():
            for condition in conditions:
                for tolerance in TOLERANCES:
                    steps = theory.steps_needed(method.factor, condition, tolerance)
                    layers = method.layers(steps)
                    counted[name, condition, tolerance] = layers
                    if tolerance == 1e-6:
                        m.draw_bound(name, condition, layers, "law")
                    within = layers <= limit and not (method.adapts and steps > WORST_CG)
                    if within and steps > 1:
                        quotients = at_threshold(method, condition, tolerance, steps, seed)
                        part = f"{name}, κ = {condition:g}, ε = {tolerance:g}"
                        m.count(quotients, part=part, reach=NEARLY)
                        if tolerance == 1e-6:
                            m.draw(name, condition, layers)
        settings = f"5 methods, 5 condition numbers, 3 tolerances, models of up to {limit} layers"
        axes = Axes("condition number κ", "layers to 10⁻⁶", log_x=True)
        tables = [layers_table(counted, conditions), costs_table(1e2, 1e-6, limit)]
        return replace(m.outcome(settings, axes), tables=tables)


def at_threshold(
    method: Method, condition: float, tolerance: float, steps: int, seed: int
) -> np.ndarray:
    """Errors of T* and of T* − 1 steps over the predicted ones, and on their sides of ε."""
    smallest = 0.25
    largest = condition * (RIDGE + smallest) - RIDGE
    solver, ratios, errors = method.tuned_to((RIDGE + smallest, RIDGE + largest)), [], []
    for t in (steps, steps - 1):
        prompt = method.hard(smallest, largest, t, seed)
        model = compiled(solver, prompt, LinearAttention(largest), steps=t, ridge=RIDGE)
        error, bound = scaled_error(model, prompt, RIDGE), method.factor(condition, t)
        ratios.append(both_sides(error, bound, bound, promise(model)))
        ratios.append(np.array([same(model.transformer.config.n_layers, method.layers(t))]))
        errors.append(error.ravel())
    kept, missed = errors[0] - promise(model), errors[1] + promise(model)
    return np.concatenate([*ratios, kept / tolerance, tolerance / missed])


def layers_table(
    counted: dict[tuple[str, float, float], int], conditions: Sequence[float]
) -> Table:
    header = ["layers to 10⁻³ / 10⁻⁶ / 10⁻⁹", *(f"κ = {condition:g}" for condition in conditions)]
    rows = [
        [name, *(" / ".join(f"{counted[name, c, e]:,}" for e in TOLERANCES) for c in conditions)]
        for name in METHODS
    ]
    return Table(header, rows)


def costs_table(condition: float, tolerance: float, limit: int) -> Table:
    """What the models for one κ and ε cost, side by side."""
    task = PrescribedSpectrum(features=8, supports=64, condition=condition)
    prompt, interval, rows = task.draw(1, 0), (RIDGE, RIDGE * condition), []
    for name, method in METHODS.items():
        steps = theory.steps_needed(method.factor, condition, tolerance)
        if method.adapts:  # it ends when it has seen every eigenvalue
            steps = min(steps, task.features + 1)
        if method.layers(steps) > limit:
            continue
        to = LinearAttention(task.max_eigenvalue)
        model = compiled(method.tuned_to(interval), prompt, to, steps=steps)
        config = model.transformer.config
        parameters = sum(p.numel() for p in model.transformer.parameters())
        rows.append([
            name, str(model.certificate.steps), str(config.n_layers), str(config.d_model),
            str(config.n_registers), f"{parameters:,}",
        ])  # fmt: skip
    header = [f"κ = {condition:g}, ε = {tolerance:g}, 8 features", "steps", "layers", "d_model", "registers", "parameters"]  # fmt: skip
    return Table(header, rows)
