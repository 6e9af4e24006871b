"""Depth, conditioning and ridge, turned until compiled models fail, at the place that theory says."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer.compiler import CompiledModel, compile
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

METHODS: dict[str, Solver] = {
    "cg": ConjugateGradient(),
    "chebyshev": Chebyshev(),
    "gd": GradientDescent(),
}


def predicted(name: str, condition: float, steps: int) -> float:
    """The worst |f_T − f*|/(√(kᵀA⁻¹k)·‖α*‖_A) over all systems of that condition number."""
    if name == "gd":
        return richardson_rate(condition) ** steps
    return chebyshev_factor(condition, steps)


def worst_prompt(
    name: str, smallest: float, largest: float, steps: int, batch: int, seed: int
) -> Prompt:
    hard = hard_for_fixed if name == "gd" else hard_for_krylov
    return hard(smallest, largest, steps, batch, seed)


def built(
    name: str, features: int, steps: int, ridge: float, smallest: float, largest: float
) -> CompiledModel:
    interval = None if name == "cg" else (ridge + smallest, ridge + largest)
    return compile(
        METHODS[name],
        features=features,
        steps=steps,
        ridge=ridge,
        max_eigenvalue=largest,
        interval=interval,
    )


class KnobDepth(Theorem):
    name = "knob-depth"
    title = "Depth: one step less than the theory asks for, and ε is missed"
    statement = (
        "On the worst system of condition number κ a compiled model of T steps errs by exactly "
        "1/T<sub>T</sub>((κ+1)/(κ−1)) (CG, Chebyshev) or ((κ−1)/(κ+1))<sup>T</sup> (gradient descent) times "
        "√(k(x)ᵀA⁻¹k(x))·‖α*‖<sub>A</sub>; so ε takes T* = ⌈arcosh(1/ε)/arcosh((κ+1)/(κ−1))⌉ or "
        "⌈log ε/log((κ−1)/(κ+1))⌉ steps, and with T* − 1 it is missed."
    )
    see = (
        "Measured errors lie on the dotted predictions and cross ε at the predicted number of layers; "
        "CG pays with layers for coefficients that it need not be told."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        condition, batch = (6.0, 4) if fast else (20.0, 32)
        tolerance, ridge, smallest = 1e-2, 1.0, 0.25
        largest = condition * (ridge + smallest) - ridge
        found: list[np.ndarray] = []
        lines: list[Line] = []
        needed = {}
        for name in METHODS:
            enough = (richardson_steps if name == "gd" else chebyshev_steps)(condition, tolerance)
            depths = sorted({1, 2, enough // 2, enough - 1, enough, enough + 2} - {0})
            layers, worst, theory = [], [], []
            for steps in depths:
                prompt = worst_prompt(name, smallest, largest, steps, batch, seed)
                model = built(name, prompt.features, steps, ridge, smallest, largest)
                error = scaled_error(model, prompt, ridge)
                bound = predicted(name, condition, steps)
                found.append(both_sides(error, np.array(bound), np.array(bound), promise(model)))
                layers.append(float(model.transformer.config.n_layers))
                worst.append(float(error.max()))
                theory.append(bound)
                if steps == enough - 1:
                    too_few = error
                if steps == enough:
                    found.append(threshold(error, too_few, tolerance))
                    needed[name] = layers[-1]
            lines += [Line(name, layers, worst), Line(f"{name}, predicted", layers, theory, True)]
        drawn = list(lines)
        lines += [mark(f"{name}, needs {x:g} layers", x, drawn) for name, x in needed.items()]
        span = [float(v) for line in drawn for v in line.x]
        lines.append(Line("ε", [min(span), max(span)], [tolerance, tolerance], bound=True))
        settings = f"3 methods, κ = {condition:g}, ε = {tolerance:g}, {batch} prompts per depth"
        axes = Axes("layers", "|f_T − f*| / (√(kᵀA⁻¹k)·‖α*‖_A)", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


class KnobConditioning(Theorem):
    name = "knob-conditioning"
    title = "Conditioning: T steps reach ε up to a κ that is known beforehand"
    statement = (
        "T steps bring every system to ε just if κ ≤ (c+1)/(c−1), c = cosh(arcosh(1/ε)/T), for CG and "
        "Chebyshev, or κ ≤ (1+ε<sup>1/T</sup>)/(1−ε<sup>1/T</sup>) for gradient descent. A Chebyshev model with an "
        "eigenvalue σ beyond its interval c ± h errs by exactly T<sub>T</sub>((σ−c)/h)/T<sub>T</sub>(c/h) there, past "
        "σ = 2c more than no prediction at all, and its certificate refuses such a prompt."
    )
    see = (
        "Worst prompts lie on the dotted predictions and cross ε where they say; ordinary prompts stay "
        "below; a model used outside its certificate diverges as predicted, and predict refuses it."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, batch, points = (6, 4, 5) if fast else (10, 32, 13)
        tolerance, ridge, smallest = 1e-2, 1.0, 0.25
        found: list[np.ndarray] = []
        lines: list[Line] = []
        limits = {
            name: (richardson_condition if name == "gd" else chebyshev_condition)(steps, tolerance)
            for name in METHODS
        }
        conditions = np.geomspace(1.5, 1e3, points).tolist()
        # CG has no interval: one model serves every condition number.
        top = conditions[-1] * (ridge + smallest)
        adaptive = built("cg", steps + 1, steps, ridge, smallest, top)
        for name, limit in limits.items():
            xs = sorted([*conditions, limit * (1 - NEAR), limit * (1 + NEAR)])
            at, worst, theory = {}, [], []
            for condition in xs:
                largest = condition * (ridge + smallest) - ridge
                prompt = worst_prompt(name, smallest, largest, steps, batch, seed)
                model = adaptive
                if name != "cg":
                    model = built(name, prompt.features, steps, ridge, smallest, largest)
                error = scaled_error(model, prompt, ridge)
                bound = predicted(name, condition, steps)
                found.append(both_sides(error, np.array(bound), np.array(bound), promise(model)))
                at[condition] = error
                worst.append(float(error.max()))
                theory.append(bound)
            found.append(threshold(at[limit * (1 - NEAR)], at[limit * (1 + NEAR)], tolerance))
            lines += [Line(name, xs, worst), Line(f"{name}, predicted", xs, theory, True)]
        usual = []
        for condition in conditions:
            task = PrescribedSpectrum(features=steps + 1, supports=24, condition=condition)
            error = scaled_error(adaptive, task.draw(batch, seed), ridge)
            bound = predicted("cg", condition, steps)
            found.append(both_sides(error, np.array(0.0), np.array(bound), promise(adaptive)))
            usual.append(float(error.max()))
        lines.append(Line("cg on ordinary prompts", conditions, np.maximum(usual, 1e-17).tolist()))
        beyond, ratios = outside(limits["chebyshev"], steps, batch, seed, 4 if fast else 12)
        found.append(ratios)
        lines += beyond
        drawn = list(lines)
        lines += [mark(f"{name}, fails here", x, drawn) for name, x in limits.items()]
        lines.append(Line("ε", [conditions[0], conditions[-1]], [tolerance] * 2, bound=True))
        settings = f"3 methods, {points} condition numbers, {steps} steps, {batch} prompts of each"
        axes = Axes("condition number κ", "|f_T − f*| / (√(kᵀA⁻¹k)·‖α*‖_A)", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


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
    found, worst, theory = [], [], []
    for x in xs.tolist():
        value = x * ridge - ridge
        prompt = prompt_of_modes(value * one, one, one, batch, seed)
        exact = krr(prompt, ridge=ridge)
        inside = x <= condition
        # Two is a violation: a refusal inside the domain, or none outside.
        found.append(np.array([0.0 if refused(model, prompt) != inside else 2.0]))
        with torch.inference_mode():  # past the certificate, on purpose
            error = (
                model.transformer(prompt.tokens(), prompt.supports + 1) - exact
            ).abs() / exact.abs()
        bound = chebyshev_residual(value + ridge, interval, steps)
        # The promise is relative to the largest value, which beyond the interval is the error's.
        allowance = promise(model) * max(1.0, bound)
        found.append(both_sides(error.numpy(), np.array(bound), np.array(bound), allowance))
        worst.append(float(error.max()))
        theory.append(bound)
    name = f"chebyshev tuned to κ = {condition:.3g}"
    worst = np.maximum(worst, 1e-17).tolist()
    theory = np.maximum(theory, 1e-17).tolist()
    lines = [Line(name, xs.tolist(), worst), Line(f"{name}, predicted", xs.tolist(), theory, True)]
    return lines, np.concatenate(found)


def refused(model: CompiledModel, prompt: Prompt) -> bool:
    try:
        model.predict(prompt)
    except Refusal:
        return True
    return False


class KnobRidge(Theorem):
    name = "knob-ridge"
    title = "Ridge: too small and T steps fail, too large and nothing is fitted"
    statement = (
        "With K fixed, κ = (σ₁+λ)/(σ<sub>k</sub>+λ), and T steps reach ε just if λ ≥ (σ₁ − κ*σ<sub>k</sub>)/(κ* − 1) "
        "for the κ* of the conditioning knob. Of a target, λ/(λ+σ₁) − s at least and λ/(λ+σ<sub>k</sub>) + s at "
        "most stays unfitted, s = σ₁/(λ+σ₁)/T<sub>T</sub>((κ+1)/(κ−1))."
    )
    see = (
        "To the left of the dotted verticals the solver fails, to the right the ridge itself does "
        "(misfit), both on their predictions; gradient descent needs the larger λ."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, batch, points = (5, 4, 4) if fast else (7, 32, 19)
        tolerance, largest, smallest = 0.1, 20.0, 0.2
        found: list[np.ndarray] = []
        lines: list[Line] = []
        ridges = np.geomspace(1e-2, 1e4, points).tolist()
        limits = {}
        for name in METHODS:
            condition = (richardson_condition if name == "gd" else chebyshev_condition)(
                steps, tolerance
            )
            limit = limits[name] = least_ridge(condition, largest, smallest)
            # The prompts stay the same: λ alone is turned.
            prompt = worst_prompt(name, smallest, largest, steps, batch, seed)
            xs = sorted([*ridges, limit * (1 - NEAR), limit * (1 + NEAR)])
            at, worst, theory = {}, [], []
            for ridge in xs:
                model = built(name, prompt.features, steps, ridge, smallest, largest)
                error = scaled_error(model, prompt, ridge)
                bound = predicted(name, (largest + ridge) / (smallest + ridge), steps)
                found.append(both_sides(error, np.array(bound), np.array(bound), promise(model)))
                at[ridge] = error
                worst.append(float(error.max()))
                theory.append(bound)
            found.append(threshold(at[limit * (1 + NEAR)], at[limit * (1 - NEAR)], tolerance))
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
        found.append(ratios)
        lines += misfits
        drawn = list(lines)
        lines += [mark(f"{name}, fails below λ = {x:.3g}", x, drawn) for name, x in limits.items()]
        lines.append(Line("ε", [ridges[0], ridges[-1]], [tolerance, tolerance], bound=True))
        settings = (
            f"3 methods and the misfit, {points} ridges, {steps} steps, {batch} prompts of each"
        )
        axes = Axes("ridge λ", "error against f*, and misfit ‖y − f(X)‖/‖y‖", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


def unfitted(
    ridges: list[float], smallest: float, largest: float, steps: int, batch: int, seed: int
) -> tuple[list[Line], np.ndarray]:
    """‖y − f_T(X)‖/‖y‖ of Chebyshev at the supports, for targets in the first and in the last mode."""
    found, lines = [], []
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
            found.append(both_sides(misfit, np.array(lower), np.array(upper), promise(model)))
            line.append(float(misfit.max()))
        lowest.append(max(lower, 0.0))
        highest.append(upper)
    seen = [v for v in lowest if v > 0]
    kept = [x for x, v in zip(ridges, lowest, strict=True) if v > 0]
    lines = [Line(name, ridges, values) for name, values in measured.items()]
    lines.append(Line("misfit, first mode, at least", kept, seen, bound=True))
    lines.append(Line("misfit, last mode, at most", ridges, highest, bound=True))
    return lines, np.concatenate(found)
