"""Depth, conditioning and ridge, turned until compiled models fail, at the place that theory says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, LinearAttention, compile
from ridgeformer.experiments.theorems.base import FAILURES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.hard import (
    NEAR,
    NEARLY,
    hard_for_fixed,
    hard_for_krylov,
    promise,
    prompt_of_modes,
    scaled_error,
    threshold,
)
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, Solver, krr
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import PrescribedSpectrum, Prompt
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
        known = theory.chebyshev_factor if self.optimal else theory.richardson_factor
        return known(condition, steps)

    def steps(self, condition: float, tolerance: float) -> int:
        """How many steps the tolerance takes."""
        known = theory.chebyshev_steps if self.optimal else theory.richardson_steps
        return known(condition, tolerance)

    def condition(self, steps: int, tolerance: float) -> float:
        """The condition number up to which so many steps reach the tolerance."""
        known = theory.chebyshev_condition if self.optimal else theory.richardson_condition
        return known(steps, tolerance)


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


@dataclass
class Knob:
    """Compiled models on the worst systems of their methods, while something is turned."""

    batch: int
    seed: int
    drawn_above: float = 0.0
    """Where the prediction is smaller, the error is round-off, and nothing is drawn."""
    m: Measurement = field(default_factory=Measurement)

    def at(
        self,
        name: str,
        x: float | None,
        steps: int,
        ridge: float,
        smallest: float,
        largest: float,
        model: CompiledModel | None = None,
    ) -> np.ndarray:
        """The error on the worst system, which must be F_T; drawn at x, or at the number of layers."""
        method = METHODS[name]
        hard = hard_for_krylov if method.optimal else hard_for_fixed
        prompt = hard(smallest, largest, steps, self.batch, self.seed)
        model = model or built(name, prompt.features, steps, ridge, smallest, largest)
        error = scaled_error(model, prompt, ridge)
        bound = method.factor((largest + ridge) / (smallest + ridge), steps)
        allowed, where = promise(model), ""
        if bound > 100 * allowed:  # and else the certificate's allowance is most of it
            where = f"{name}, T = {steps}, λ = {ridge:.3g}, from {smallest:.3g} to {largest:.3g}"
        self.m.between(error, bound, bound, allowed, part=where, reach=NEARLY)
        if bound > self.drawn_above:
            x = model.transformer.config.n_layers if x is None else x
            self.m.draw(name, x, error.max())
            self.m.draw_bound(name, x, bound, "predicted")
        return error


class KnobDepth(Theorem):
    name = "knob-depth"
    group = FAILURES
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
        knob, needed, span = Knob(batch, seed), {}, []
        for name, method in METHODS.items():
            enough = method.steps(condition, tolerance)
            depths = sorted({1, 2, enough // 2, enough - 1, enough, enough + 2} - {0})
            errors = {t: knob.at(name, None, t, ridge, smallest, largest) for t in depths}
            knob.m.count(threshold(errors[enough], errors[enough - 1], tolerance))
            layers = list(knob.m.points[name])
            least = layers[depths.index(enough)]
            needed[name] = least
            span += layers
        for name, least in needed.items():
            knob.m.mark(least, f"needs {least:g} layers", of=name)
        knob.m.level("ε", tolerance, span)
        settings = f"3 methods, κ = {condition:g}, ε = {tolerance:g}, {batch} prompts per depth"
        axes = Axes("layers", "|f_T − f*| / (√(kᵀA⁻¹k)·‖α*‖_A)", log_x=True)
        return knob.m.outcome(settings, axes)


class KnobConditioning(Theorem):
    name = "knob-conditioning"
    group = FAILURES
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
        knob = Knob(batch, seed)
        limits = {name: method.condition(steps, tolerance) for name, method in METHODS.items()}
        conditions = np.geomspace(1.5, 1e3, points).tolist()
        # CG has no interval: one model serves every condition number.
        top = conditions[-1] * (ridge + smallest)
        adaptive = built("cg", steps + 1, steps, ridge, smallest, top)
        for name, limit in limits.items():
            model, errors = adaptive if METHODS[name].adapts else None, {}
            for condition in sorted([*conditions, limit * (1 - NEAR), limit * (1 + NEAR)]):
                largest = condition * (ridge + smallest) - ridge
                errors[condition] = knob.at(name, condition, steps, ridge, smallest, largest, model)
            sides = errors[limit * (1 - NEAR)], errors[limit * (1 + NEAR)]
            knob.m.count(threshold(*sides, tolerance))
        for condition in conditions:
            task = PrescribedSpectrum(features=steps + 1, supports=24, condition=condition)
            error = scaled_error(adaptive, task.draw(batch, seed), ridge)
            bound = METHODS["cg"].factor(condition, steps)
            knob.m.between(error, 0.0, bound, promise(adaptive))  # ordinary prompts meet nothing
            knob.m.draw("cg on ordinary prompts", condition, error)
        outside(knob, limits["chebyshev"], steps, 4 if fast else 12)
        for name, limit in limits.items():
            knob.m.mark(limit, "fails here", of=name)
        knob.m.level("ε", tolerance, conditions)
        settings = f"3 methods, {points} condition numbers, {steps} steps, {batch} prompts of each"
        axes = Axes("condition number κ", "|f_T − f*| / (√(kᵀA⁻¹k)·‖α*‖_A)", log_x=True)
        return knob.m.outcome(settings, axes)


def outside(knob: Knob, condition: float, steps: int, points: int) -> None:
    """Chebyshev compiled for one condition number, on single modes in and beyond its interval."""
    ridge, name = 1.0, f"chebyshev tuned to κ = {condition:.3g}"
    model = built("chebyshev", 1, steps, ridge, 0.0, condition * ridge - ridge)
    one = torch.ones(1, dtype=torch.float64)
    parts = (1.5, condition), (condition, 2.5 * condition)
    for x in np.unique([np.geomspace(*part, points) for part in parts]).tolist():
        value = x * ridge - ridge
        prompt = prompt_of_modes(value * one, one, one, knob.batch, knob.seed)
        exact = krr(prompt, ridge=ridge)
        # Two is a violation: a refusal inside the domain, or none outside.
        knob.m.count(0.0 if refused(model, prompt) != (x <= condition) else 2.0)
        with torch.inference_mode():  # past the certificate, on purpose
            predicted = model.transformer(prompt.tokens(), prompt.supports + 1)
        error = (predicted - exact).abs() / exact.abs()
        bound = theory.chebyshev_residual(value + ridge, (ridge, condition * ridge), steps)
        # The promise is relative to the largest value, which beyond the interval is the error's.
        part = f"{name}, κ = {x:.3g}"
        knob.m.between(error, bound, bound, promise(model) * max(1.0, bound), part=part)
        knob.m.draw(name, x, error)
        knob.m.draw_bound(name, x, bound, "predicted")


def refused(model: CompiledModel, prompt: Prompt) -> bool:
    try:
        model.predict(prompt)
    except Refusal:
        return True
    return False


class KnobRidge(Theorem):
    name = "knob-ridge"
    group = FAILURES
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
        knob, limits = Knob(batch, seed, drawn_above=1e-9), {}
        ridges = np.geomspace(1e-2, 1e4, points).tolist()
        for name, method in METHODS.items():
            limit = theory.least_ridge(method.condition(steps, tolerance), largest, smallest)
            limits[name] = limit
            # The prompts stay the same: λ alone is turned.
            errors = {
                ridge: knob.at(name, ridge, steps, ridge, smallest, largest)
                for ridge in sorted([*ridges, limit * (1 - NEAR), limit * (1 + NEAR)])
            }
            sides = errors[limit * (1 + NEAR)], errors[limit * (1 - NEAR)]
            knob.m.count(threshold(*sides, tolerance))
        unfitted(knob, ridges, smallest, largest, steps)
        for name, limit in limits.items():
            knob.m.mark(limit, f"fails below λ = {limit:.3g}", of=name)
        knob.m.level("ε", tolerance, ridges)
        settings = (
            f"3 methods and the misfit, {points} ridges, {steps} steps, {batch} prompts of each"
        )
        axes = Axes("ridge λ", "error against f*, and misfit ‖y − f(X)‖/‖y‖", log_x=True)
        return knob.m.outcome(settings, axes)


def unfitted(knob: Knob, ridges: list[float], smallest: float, largest: float, steps: int) -> None:
    """‖y − f_T(X)‖/‖y‖ of Chebyshev at the supports, for targets in the first and in the last mode."""
    modes = torch.tensor([largest, smallest], dtype=torch.float64)
    for ridge in ridges:
        lower, upper = theory.misfit_bounds(ridge, largest, smallest, steps)
        model = built("chebyshev", 2, steps, ridge, smallest, largest)
        for name, y in zip(("first", "last"), torch.eye(2, dtype=torch.float64), strict=True):
            drawn = prompt_of_modes(modes, y, y, knob.batch, knob.seed)
            prompt = Prompt(drawn.phi, drawn.y, drawn.phi)
            misfit = (drawn.y - model.predict(prompt)).norm(dim=1)  # ‖y‖ = 1
            # The first mode meets the lower bound, the last one the upper bound.
            most, least = (inf, lower) if name == "first" else (upper, 0.0)
            knob.m.between(misfit, lower, upper, promise(model))
            part = f"misfit, {name} mode, λ = {ridge:.3g}"
            knob.m.between(misfit, least, most, promise(model), part=part, reach=0.5)
            knob.m.draw(f"misfit, {name} mode", ridge, float(misfit.max()))
        if lower > 0:
            knob.m.draw_bound("misfit, first mode", ridge, lower, "at least")
        knob.m.draw_bound("misfit, last mode", ridge, upper, "at most")
