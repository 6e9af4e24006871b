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
from ridgeformer.compiler import CompiledModel, compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum

EXACT = 1e-8
"""How near the ablated model must be to what is predicted, relative to the intact solver."""

TASK = PrescribedSpectrum(features=4, supports=12, condition=20)


MLP = Literal["relu", "reglu"]
PARTS: dict[Literal["reductions", "all"], str] = {"reductions": "reductions", "all": "aggregator"}


def model_of(
    name: str, ridge: float = 1.0, steps: int = 4, mlp: MLP = "relu", outputs: int = 1
) -> CompiledModel:
    return compile(
        make_solver(name),
        features=4,
        steps=steps,
        ridge=ridge,
        max_eigenvalue=TASK.max_eigenvalue,
        mlp=mlp,
        outputs=outputs,
    )


class Ablations(Theorem):
    name = "ablations"
    title = "Without its mat-vec heads a model is its solver without K"
    statement = (
        "With the mat-vec heads silenced, α and f equal those of the same recurrence with K p = 0. With "
        "the reductions of CG silenced, α and f stay exactly 0, since ρ̂ is held at 0, and r and p are "
        "those of the recurrence with every inner product 0; with the whole aggregator silenced, r and p "
        "are 0 too. All to 1e-8."
    )
    see = "Ablated models are at round-off from the prediction, and far from the intact solver."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        found: list[float] = []
        predicted: dict[str, float] = {}
        intact: dict[str, float] = {}
        for name in ("cg", "gd", "chebyshev", "heavy-ball"):
            seen = ablate_matvecs(model_of(name), prompt)
            found += [seen.alpha_apart, seen.prediction_apart]
            predicted[f"{name} without K"] = seen.alpha_apart
            intact[f"{name} without K"] = seen.intact_alpha_apart
        for part, called in PARTS.items():
            gone = ablate_aggregator(model_of("cg", mlp="reglu"), prompt, part)
            found += [gone.largest_alpha, gone.largest_prediction, *gone.state_apart]
            predicted[f"cg without {called}"] = max(gone.state_apart)
            intact[f"cg without {called}"] = gone.intact_alpha_apart
        lines = [
            Line("to the prediction", list(predicted), [max(v, 1e-17) for v in predicted.values()]),
            Line("of α to the intact solver (control)", list(intact), list(intact.values())),
        ]
        settings = f"4 solvers without mat-vecs, CG without aggregator, {len(prompt.phi)} prompts"
        axes = Axes("", "relative distance", bars="beside")
        return Outcome(settings, np.array(found) / EXACT, lines, axes)


class WithoutReductions(Theorem):
    name = "without-reductions"
    title = "Without reductions CG only changes its unit, by factors that are known"
    statement = (
        "With the reductions of CG silenced, p_t = r_t = c_1(0)⋯c_{t+1}(0)·y, where c_s(0) is the value at 0 "
        "of the table of x<sup>−1/2</sup> that rescales step s. A gated MLP follows at every step; a plain "
        "ReLU MLP for t ≤ 1, until r exceeds the constant with which it silences neurons."
    )
    see = "The length of p grows by some 16 orders of ten a step, on the dotted prediction."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        found, lines = [], []
        followed: dict[MLP, int | None] = {"reglu": None, "relu": 2}
        for mlp, some in followed.items():
            model = model_of("cg", mlp=mlp, steps=4 if fast else 6)
            growth = ablate_aggregator(model, prompt, "reductions").growth[:some]
            expected = growth_without_reductions(model)[: len(growth)]
            found.append(np.array(growth) / np.array(expected))
            steps = list(range(len(growth)))
            lines += [
                Line(mlp, steps, growth),
                Line(f"{mlp}, predicted", steps, expected, bound=True),
            ]
        settings = f"gated and plain ReLU MLP, {len(prompt.phi)} prompts"
        return Outcome(settings, np.concatenate(found), lines, Axes("step t", "p_t over y"))


class RidgeInTheWeights(Theorem):
    name = "ridge-in-the-weights"
    title = "λ lives in a few weights, and moves predictions as ridge theory says"
    statement = (
        "Changing only the entries that hold λ turns a compiled CG into CG at λ', to 1e-8 of the "
        "solver's predictions."
    )
    see = "Distance to the solver at λ', beside the distance of the unchanged model (control)."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        changes = (1.001, 1.01, 1.3) if fast else (1.001, 1.01, 1.1, 1.3, 2.0)
        model = model_of("cg", steps=5)
        found, reached, unchanged = [], [], []
        for ridge in changes:
            seen = change_ridge(model, model_of("cg", ridge, steps=5), prompt)
            found.append(seen.prediction_apart / EXACT)
            reached.append(max(seen.prediction_apart, 1e-17))
            unchanged.append(seen.unchanged_apart)
        names = [f"λ' = {ridge:g}" for ridge in changes]
        lines = [
            Line("λ changed in the weights", names, reached),
            Line("unchanged (control)", names, unchanged),
        ]
        axes = Axes("", "distance to the solver at λ'", bars="beside")
        settings = f"{len(changes)} values of λ', {len(prompt.phi)} prompts, 5 steps"
        return Outcome(settings, np.array(found), lines, axes)
