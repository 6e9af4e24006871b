"""What happens when a part of a compiled model is taken away or changed, predicted and measured."""

from __future__ import annotations

import numpy as np

from ridgeformer.analysis import ablate_aggregator, ablate_matvecs, change_ridge
from ridgeformer.compiler import CompiledModel, compile
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.verification.base import Axes, Line, Outcome, Theorem

EXACT = 1e-8
"""How near the ablated model must be to what is predicted, relative to the intact solver."""

TASK = PrescribedSpectrum(features=4, supports=12, condition=20)


def model_of(name: str, ridge: float = 1.0, steps: int = 4) -> CompiledModel:
    return compile(
        make_solver(name),
        features=4,
        steps=steps,
        ridge=ridge,
        max_eigenvalue=TASK.max_eigenvalue,
    )


class Ablations(Theorem):
    name = "ablations"
    title = "Without its mat-vec heads a model is its solver without K"
    statement = (
        "With the mat-vec heads silenced, α and f equal those of the same recurrence with K p = 0; with "
        "the reductions of CG silenced, α and f stay exactly 0, since ρ̂ is held at 0. Both to 1e-8 of "
        "the intact solver."
    )
    see = "Distance to the prediction (left of each pair) and, as control, to the intact solver."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = TASK.draw(4 if fast else 32, seed)
        found, predicted, intact = [], [], []
        for name in ("cg", "gd", "chebyshev", "heavy-ball"):
            seen = ablate_matvecs(model_of(name), prompt)
            found += [seen.alpha_apart / EXACT, seen.prediction_apart / EXACT]
            predicted.append(max(seen.alpha_apart, 1e-17))
            intact.append(seen.intact_alpha_apart)
        for part in ("reductions", "all"):
            gone = ablate_aggregator(model_of("cg"), prompt, part)
            found += [gone.largest_alpha / EXACT, gone.largest_prediction / EXACT]
        x = [1.0, 2.0, 3.0, 4.0]
        lines = [
            Line("to the prediction", x, predicted),
            Line("to the intact solver (control)", x, intact),
        ]
        settings = f"4 solvers without mat-vecs, CG without reductions, {len(prompt.phi)} prompts"
        axes = Axes("cg, gd, chebyshev, heavy ball", "relative distance of α")
        return Outcome(settings, np.array(found), lines, axes)


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
        lines = [
            Line("λ changed in the weights", changes, reached),
            Line("unchanged (control)", changes, unchanged),
        ]
        settings = f"{len(changes)} values of λ', {len(prompt.phi)} prompts, 5 steps"
        return Outcome(settings, np.array(found), lines, Axes("λ'", "distance to the solver at λ'"))
