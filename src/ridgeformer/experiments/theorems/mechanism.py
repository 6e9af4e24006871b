"""What happens when a part of a compiled model is taken away or changed, predicted and measured."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ridgeformer.analysis import (
    ablate_aggregator,
    ablate_matvecs,
    change_ridge,
    growth_without_reductions,
)
from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, compile
from ridgeformer.experiments.theorems.base import MECHANISM, Axes, Measurement, Outcome, Theorem
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum

EXACT = 1e-8
"""How near the ablated model must be to what is predicted, relative to the intact solver."""

TASK = PrescribedSpectrum(features=4, supports=12, condition=20)


PARTS: dict[Literal["reductions", "all"], str] = {"reductions": "reductions", "all": "aggregator"}


def model_of(
    name: str,
    ridge: float = 1.0,
    steps: int = 4,
    products: Exact | None = None,
    outputs: int = 1,
) -> CompiledModel:
    to, solver = LinearAttention(TASK.max_eigenvalue, products=products), make_solver(name)
    return compile(solver, features=4, steps=steps, ridge=ridge, to=to, outputs=outputs)


class Ablations(Theorem):
    name = "ablations"
    group = MECHANISM
    title = "Without its mat-vec heads a model is its solver without K"
    states = ("ablated-model",)
    measured = (
        "α and f of a model without mat-vecs at the supports, or at no token, and α, f, r and p of CG without "
        "reductions or without the whole aggregator, equal those of the recurrence without that part to 1e-8. "
        "Without the aggregator r and p are 0 too."
    )
    see = "Ablated models are at round-off from the prediction, and far from the intact solver."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        m = Measurement()

        def distances(name: str, counted: list[float], apart: float, intact: float) -> None:
            m.count(np.array(counted) / EXACT)
            m.draw("to the prediction", name, apart)
            m.draw("of α to the intact solver (control)", name, intact)

        for name in ("cg", "gd", "chebyshev", "heavy-ball"):
            everywhere = ablate_matvecs(model_of(name), prompt, place="everywhere")
            m.count(np.array([everywhere.alpha_apart, everywhere.prediction_apart]) / EXACT)
            seen = ablate_matvecs(model_of(name), prompt, place="supports")
            counted = [seen.alpha_apart, seen.prediction_apart]
            distances(f"{name} without K", counted, seen.alpha_apart, seen.intact_alpha_apart)
        for part, called in PARTS.items():
            gone = ablate_aggregator(model_of("cg", products=Exact()), prompt, part)
            counted = [gone.largest_alpha, gone.largest_prediction, *gone.state_apart]
            apart = max(gone.state_apart)
            distances(f"cg without {called}", counted, apart, gone.intact_alpha_apart)
        settings = f"4 solvers without mat-vecs, CG without aggregator, {len(prompt.phi)} prompts"
        return m.outcome(settings, Axes("", "relative distance", bars="beside"))


class WithoutReductions(Theorem):
    name = "without-reductions"
    group = MECHANISM
    title = "Without reductions CG only changes its unit, by factors that are known"
    states = ("without-reductions",)
    measured = (
        "A gated MLP must follow at every step; a plain ReLU MLP for t ≤ 1, until r exceeds the "
        "constant with which it silences neurons."
    )
    see = "The length of p grows by some 16 orders of ten a step, on the dotted prediction."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        m = Measurement()
        followed: dict[str, tuple[Exact | None, int | None]] = {
            "reglu": (Exact(), None),
            "relu": (None, 2),
        }
        for mlp, (products, some) in followed.items():
            model = model_of("cg", products=products, steps=4 if fast else 6)
            growth = ablate_aggregator(model, prompt, "reductions").growth[:some]
            for t, (grown, expected) in enumerate(
                zip(growth, growth_without_reductions(model), strict=False)
            ):
                m.count(grown / expected)
                m.draw(mlp, t, grown)
                m.draw_bound(mlp, t, expected, "predicted")
        settings = f"gated and plain ReLU MLP, {len(prompt.phi)} prompts"
        return m.outcome(settings, Axes("step t", "p_t over y"))


class RidgeInTheWeights(Theorem):
    name = "ridge-in-the-weights"
    group = MECHANISM
    title = "λ lives in a few weights, and moves predictions as ridge theory says"
    states = ("ridge-weights",)
    measured = "2T − 1 weights are changed, and no table. Predictions of the changed model equal the solver's at λ' to 1e-8."
    see = "Distance to the solver at λ', beside the distance of the unchanged model (control)."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        changes = (1.001, 1.01, 1.3) if fast else (1.001, 1.01, 1.1, 1.3, 2.0)
        steps = 5
        model = model_of("cg", steps=steps)
        m = Measurement()
        for ridge in changes:
            seen = change_ridge(model, model_of("cg", ridge, steps=steps), prompt)
            m.count(seen.prediction_apart / EXACT)
            m.count(0.0 if len(seen.weights) == 2 * steps - 1 else 2.0)
            m.draw("λ changed in the weights", f"λ' = {ridge:g}", seen.prediction_apart)
            m.draw("unchanged (control)", f"λ' = {ridge:g}", seen.unchanged_apart)
        settings = f"{len(changes)} values of λ', {len(prompt.phi)} prompts, {steps} steps"
        return m.outcome(settings, Axes("", "distance to the solver at λ'", bars="beside"))
