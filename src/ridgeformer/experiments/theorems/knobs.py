"""Depth, conditioning and ridge, turned until compiled models fail, at the place that theory says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ridgeformer.compiler import CompiledModel, LinearAttention, compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem
from ridgeformer.experiments.theorems.hard import (
    NEAR,
    both_sides,
    hard_for_fixed,
    hard_for_krylov,
    mark,
    promise,
    prompt_of_modes,
    scaled_error,
    threshold,
)
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, Solver, krr
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory import (
    chebyshev_condition,
    chebyshev_factor,
    chebyshev_residual,
    chebyshev_steps,
    least_ridge,
    misfit_bounds,
    richardson_condition,
    richardson_rate,
    richardson_steps,
)
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Method:
    """A solver, with what is known of its worst case over all systems of one condition number."""

    tuned_to: Callable[[Interval], Solver]
    """The solver for spectra in an interval."""
    optimal: bool
    """Whether the worst case is that of Chebyshev's polynomial, and else that of Richardson's."""
    adapts: bool = False
    """Whether one model serves every interval."""

    def factor(self, condition: float, steps: int) -> float:
        """The worst |f_T − f*|/(√(kᵀA⁻¹k)·‖α*‖_A)."""
        if self.optimal:
            return chebyshev_factor(condition, steps)
        return richardson_rate(condition) ** steps

    def steps(self, condition: float, tolerance: float) -> int:
        """How many steps the tolerance takes."""
        return (chebyshev_steps if self.optimal else richardson_steps)(condition, tolerance)

    def condition(self, steps: int, tolerance: float) -> float:
        """The condition number up to which so many steps reach the tolerance."""
        known = chebyshev_condition if self.optimal else richardson_condition
        return known(steps, tolerance)

    def worst_prompt(
        self, smallest: float, largest: float, steps: int, batch: int, seed: int
    ) -> Prompt:
        hard = hard_for_krylov if self.optimal else hard_for_fixed
        return hard(smallest, largest, steps, batch, seed)


METHODS = {
    "cg": Method(lambda _: ConjugateGradient(), optimal=True, adapts=True),
    "chebyshev": Method(lambda interval: Chebyshev(interval=interval), optimal=True),
    "gd": Method(lambda interval: GradientDescent(interval=interval), optimal=False),
}


def built(
    name: str, features: int, steps: int, ridge: float, smallest: float, largest: float
) -> CompiledModel:
    """The method compiled for kernel matrices with eigenvalues between smallest and largest."""
    return compile(
        METHODS[name].tuned_to((ridge + smallest, ridge + largest)),
        features=features,
        steps=steps,
        ridge=ridge,
        to=LinearAttention(largest),
    )


class KnobDepth(Theorem):
    name = "knob-depth"
    title = "Depth: one step less than the theory asks for, and ε is missed"
    states = ("depth-failure",)
    measured = (
        "Compiled models of T* − 1, T* and other numbers of steps on the worst system: the error must "
        "be F_T, and ε is missed with T* − 1 steps."
    )
    see = (
        "Measured errors lie on the dotted predictions and cross ε at the predicted number of layers; "
        "CG pays with layers for coefficients that it need not be told."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        condition, batch = (6.0, 4) if fast else (20.0, 32)
        tolerance, ridge, smallest = 1e-2, 1.0, 0.25
        largest = condition * (ridge + smallest) - ridge
        collected: list[np.ndarray] = []
        lines: list[Line] = []
        needed = {}
        for name, method in METHODS.items():
            enough = method.steps(condition, tolerance)
            depths = sorted({1, 2, enough // 2, enough - 1, enough, enough + 2} - {0})
            layers, worst, theory = [], [], []
            for steps in depths:
                prompt = method.worst_prompt(smallest, largest, steps, batch, seed)
                model = built(name, prompt.features, steps, ridge, smallest, largest)
                error = scaled_error(model, prompt, ridge)
                bound = method.factor(condition, steps)
                collected.append(
                    both_sides(error, np.array(bound), np.array(bound), promise(model))
                )
                layers.append(float(model.transformer.config.n_layers))
                worst.append(float(error.max()))
                theory.append(bound)
                if steps == enough - 1:
                    too_few = error
                if steps == enough:
                    collected.append(threshold(error, too_few, tolerance))
                    needed[name] = layers[-1]
            lines += [Line(name, layers, worst), Line(f"{name}, predicted", layers, theory, True)]
        drawn = list(lines)
        lines += [mark(f"{name}, needs {x:g} layers", x, drawn) for name, x in needed.items()]
        span = [float(v) for line in drawn for v in line.x]
        lines.append(Line("ε", [min(span), max(span)], [tolerance, tolerance], bound=True))
        settings = f"3 methods, κ = {condition:g}, ε = {tolerance:g}, {batch} prompts per depth"
        axes = Axes("layers", "|f_T − f*| / (√(kᵀA⁻¹k)·‖α*‖_A)", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


class KnobConditioning(Theorem):
    name = "knob-conditioning"
    title = "Conditioning: T steps reach ε up to a κ that is known beforehand"
    states = ("condition-failure",)
    measured = (
        "Compiled models on the worst system at condition numbers on both sides of κ*; and a Chebyshev "
        "model on single modes in and beyond its interval, where its certificate must refuse the "
        "prompt."
    )
    see = (
        "Worst prompts lie on the dotted predictions and cross ε where they say; ordinary prompts stay "
        "below; a model used outside its certificate diverges as predicted, and predict refuses it."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, batch, points = (6, 4, 5) if fast else (10, 32, 13)
        tolerance, ridge, smallest = 1e-2, 1.0, 0.25
        collected: list[np.ndarray] = []
        lines: list[Line] = []
        limits = {name: method.condition(steps, tolerance) for name, method in METHODS.items()}
        conditions = np.geomspace(1.5, 1e3, points).tolist()
        # CG has no interval: one model serves every condition number.
        top = conditions[-1] * (ridge + smallest)
        adaptive = built("cg", steps + 1, steps, ridge, smallest, top)
        for name, method in METHODS.items():
            limit = limits[name]
            xs = sorted([*conditions, limit * (1 - NEAR), limit * (1 + NEAR)])
            at, worst, theory = {}, [], []
            for condition in xs:
                largest = condition * (ridge + smallest) - ridge
                prompt = method.worst_prompt(smallest, largest, steps, batch, seed)
                model = adaptive
                if not method.adapts:
                    model = built(name, prompt.features, steps, ridge, smallest, largest)
                error = scaled_error(model, prompt, ridge)
                bound = method.factor(condition, steps)
                collected.append(
                    both_sides(error, np.array(bound), np.array(bound), promise(model))
                )
                at[condition] = error
                worst.append(float(error.max()))
                theory.append(bound)
            collected.append(threshold(at[limit * (1 - NEAR)], at[limit * (1 + NEAR)], tolerance))
            lines += [Line(name, xs, worst), Line(f"{name}, predicted", xs, theory, True)]
        usual = []
        for condition in conditions:
            task = PrescribedSpectrum(features=steps + 1, supports=24, condition=condition)
            error = scaled_error(adaptive, task.draw(batch, seed), ridge)
            bound = METHODS["cg"].factor(condition, steps)
            collected.append(both_sides(error, np.array(0.0), np.array(bound), promise(adaptive)))
            usual.append(float(error.max()))
        lines.append(Line("cg on ordinary prompts", conditions, np.maximum(usual, 1e-17).tolist()))
        beyond, ratios = outside(limits["chebyshev"], steps, batch, seed, 4 if fast else 12)
        collected.append(ratios)
        lines += beyond
        drawn = list(lines)
        lines += [mark(f"{name}, fails here", x, drawn) for name, x in limits.items()]
        lines.append(Line("ε", [conditions[0], conditions[-1]], [tolerance] * 2, bound=True))
        settings = f"3 methods, {points} condition numbers, {steps} steps, {batch} prompts of each"
        axes = Axes("condition number κ", "|f_T − f*| / (√(kᵀA⁻¹k)·‖α*‖_A)", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


def outside(
    condition: float, steps: int, batch: int, seed: int, points: int
) -> tuple[list[Line], np.ndarray]:
    """Chebyshev compiled for one condition number, on single modes in and beyond its interval."""
    ridge = 1.0
    interval = (ridge, condition * ridge)
    model = built("chebyshev", 1, steps, ridge, 0.0, interval[1] - ridge)
    one = torch.ones(1, dtype=torch.float64)
    xs = np.unique(
        [*np.geomspace(1.5, condition, points), *np.geomspace(condition, 2.5 * condition, points)]
    )
    collected, worst, theory = [], [], []
    for x in xs.tolist():
        value = x * ridge - ridge
        prompt = prompt_of_modes(value * one, one, one, batch, seed)
        exact = krr(prompt, ridge=ridge)
        inside = x <= condition
        # Two is a violation: a refusal inside the domain, or none outside.
        collected.append(np.array([0.0 if refused(model, prompt) != inside else 2.0]))
        with torch.inference_mode():  # past the certificate, on purpose
            error = (
                model.transformer(prompt.tokens(), prompt.supports + 1) - exact
            ).abs() / exact.abs()
        bound = chebyshev_residual(value + ridge, interval, steps)
        # The promise is relative to the largest value, which beyond the interval is the error's.
        allowance = promise(model) * max(1.0, bound)
        collected.append(both_sides(error.numpy(), np.array(bound), np.array(bound), allowance))
        worst.append(float(error.max()))
        theory.append(bound)
    name = f"chebyshev tuned to κ = {condition:.3g}"
    worst = np.maximum(worst, 1e-17).tolist()
    theory = np.maximum(theory, 1e-17).tolist()
    lines = [Line(name, xs.tolist(), worst), Line(f"{name}, predicted", xs.tolist(), theory, True)]
    return lines, np.concatenate(collected)


def refused(model: CompiledModel, prompt: Prompt) -> bool:
    try:
        model.predict(prompt)
    except Refusal:
        return True
    return False


class KnobRidge(Theorem):
    name = "knob-ridge"
    title = "Ridge: too small and T steps fail, too large and nothing is fitted"
    states = ("ridge-failure",)
    measured = (
        "The same prompts at ridges on both sides of the threshold, and the misfit of targets in the "
        "first and in the last mode."
    )
    see = (
        "To the left of the dotted verticals the solver fails, to the right the ridge itself does "
        "(misfit), both on their predictions; gradient descent needs the larger λ."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, batch, points = (5, 4, 4) if fast else (7, 32, 19)
        tolerance, largest, smallest = 0.1, 20.0, 0.2
        collected: list[np.ndarray] = []
        lines: list[Line] = []
        ridges = np.geomspace(1e-2, 1e4, points).tolist()
        limits = {}
        for name, method in METHODS.items():
            limit = least_ridge(method.condition(steps, tolerance), largest, smallest)
            limits[name] = limit
            # The prompts stay the same: λ alone is turned.
            prompt = method.worst_prompt(smallest, largest, steps, batch, seed)
            xs = sorted([*ridges, limit * (1 - NEAR), limit * (1 + NEAR)])
            at, worst, theory = {}, [], []
            for ridge in xs:
                model = built(name, prompt.features, steps, ridge, smallest, largest)
                error = scaled_error(model, prompt, ridge)
                bound = method.factor((largest + ridge) / (smallest + ridge), steps)
                collected.append(
                    both_sides(error, np.array(bound), np.array(bound), promise(model))
                )
                at[ridge] = error
                worst.append(float(error.max()))
                theory.append(bound)
            collected.append(threshold(at[limit * (1 + NEAR)], at[limit * (1 - NEAR)], tolerance))
            shown = np.array(theory) > 1e-9  # below, the error is round-off
            lines += [
                Line(name, np.array(xs)[shown].tolist(), np.array(worst)[shown].tolist()),
                Line(
                    f"{name}, predicted",
                    np.array(xs)[shown].tolist(),
                    np.array(theory)[shown].tolist(),
                    True,
                ),
            ]
        misfits, ratios = unfitted(ridges, smallest, largest, steps, batch, seed)
        collected.append(ratios)
        lines += misfits
        drawn = list(lines)
        lines += [mark(f"{name}, fails below λ = {x:.3g}", x, drawn) for name, x in limits.items()]
        lines.append(Line("ε", [ridges[0], ridges[-1]], [tolerance, tolerance], bound=True))
        settings = (
            f"3 methods and the misfit, {points} ridges, {steps} steps, {batch} prompts of each"
        )
        axes = Axes("ridge λ", "error against f*, and misfit ‖y − f(X)‖/‖y‖", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


def unfitted(
    ridges: list[float], smallest: float, largest: float, steps: int, batch: int, seed: int
) -> tuple[list[Line], np.ndarray]:
    """‖y − f_T(X)‖/‖y‖ of Chebyshev at the supports, for targets in the first and in the last mode."""
    collected, lines = [], []
    modes = torch.tensor([largest, smallest], dtype=torch.float64)
    measured: dict[str, list[float]] = {"misfit, first mode": [], "misfit, last mode": []}
    lowest, highest = [], []
    for ridge in ridges:
        lower, upper = misfit_bounds(ridge, largest, smallest, steps)
        model = built("chebyshev", 2, steps, ridge, smallest, largest)
        for line, y in zip(measured.values(), torch.eye(2, dtype=torch.float64), strict=True):
            drawn = prompt_of_modes(modes, y, y, batch, seed)
            prompt = Prompt(drawn.phi, drawn.y, drawn.phi)
            misfit = (drawn.y - model.predict(prompt)).norm(dim=1).numpy()  # ‖y‖ = 1
            collected.append(both_sides(misfit, np.array(lower), np.array(upper), promise(model)))
            line.append(float(misfit.max()))
        lowest.append(max(lower, 0.0))
        highest.append(upper)
    seen = [v for v in lowest if v > 0]
    kept = [x for x, v in zip(ridges, lowest, strict=True) if v > 0]
    lines = [Line(name, ridges, values) for name, values in measured.items()]
    lines.append(Line("misfit, first mode, at least", kept, seen, bound=True))
    lines.append(Line("misfit, last mode, at most", ridges, highest, bound=True))
    return lines, np.concatenate(collected)
