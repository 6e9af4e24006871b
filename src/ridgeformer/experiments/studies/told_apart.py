"""CG, Jacobi-preconditioned CG and preconditioned gradient descent, told apart at p = 20 with 8 steps.

The usual comparison takes layer t for step t and averages the cosine of both predictions over layers. All three
methods end at the same solution, so that every model is like every candidate. The same models are here fitted by every
candidate, with its numbers and its layers chosen on other prompts, and judged by what is new in each step.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.search import fit_all
from ridgeformer.analysis.trajectories import Evidence
from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, compile
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.identification.planted import Rotated
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.told_apart_page import told_apart_page
from ridgeformer.kernels import Linear
from ridgeformer.models import subject, trajectory
from ridgeformer.solvers import ConjugateGradient, Richardson, Solver, kernel_eigenvalues, solve
from ridgeformer.statistics import UNDEFINED, Estimate
from ridgeformer.tasks import LinearRegression, Prompt

FEATURES, SUPPORTS, CONDITION, STEPS = 20, 64, 100.0, 8
SOLVERS: tuple[Solver, ...] = (
    ConjugateGradient(),
    ConjugateGradient("jacobi"),
    Richardson("jacobi"),
)
NAMES = tuple(Candidate(solver).name for solver in SOLVERS)

MEASURES = {
    "cosine": "cosine of the model's and the candidate's predictions after step t, mean over t and prompts",
    "interior": "errors of the candidate's steps over those of readouts that know the first and the last step alone",
    "unexplained": "the part of the prediction's mean square that the candidate's last step leaves",
    "cosine of a step": "the same cosine after one step",
}


def task() -> LinearRegression:
    return LinearRegression(features=FEATURES, supports=SUPPORTS, queries=8, condition=CONDITION)


def tuned(solver: Solver, prompt: Prompt) -> Solver:
    """The solver with a step size that suits the spectra of these prompts, if it has one."""
    if not isinstance(solver, Richardson):
        return solver
    around = Setting.around(prompt, Linear(), task().law().ridge, solver.precondition)
    return replace(solver, interval=(around.lo, around.hi))


def model_of(solver: Solver, prompt: Prompt) -> CompiledModel:
    top = 1.1 * float(kernel_eigenvalues(prompt).max())
    to = LinearAttention(top, None if solver.precondition == "none" else Exact())
    model = compile(solver, features=FEATURES, steps=STEPS, ridge=task().law().ridge, to=to)
    assert isinstance(model, CompiledModel)
    return model


def cosines(
    a: Float[Tensor, "steps batch q r"], b: Float[Tensor, "steps batch q r"]
) -> Float[Tensor, "steps batch"]:
    return torch.nn.functional.cosine_similarity(a.flatten(2), b.flatten(2), dim=-1)


def compare(number: int, out: Collector) -> None:
    """One model against all candidates, in the usual way and by its layers."""
    prompt = task().draw(out.prompts, out.seed)
    ridge = task().law().ridge
    model = model_of(tuned(SOLVERS[number], prompt), prompt)
    own = trajectory(model, prompt).predictions[1:]
    around = Setting.around(prompt, Linear(), ridge)
    evidence = Evidence.of(Rotated(subject(model), out.seed).read(prompt), prompt)
    fits = fit_all(evidence, [Candidate(solver) for solver in SOLVERS], around, STEPS + 2)
    for solver, fit in zip(SOLVERS, fits, strict=True):
        name = Candidate(solver).name
        steps = solve(tuned(solver, prompt), prompt, steps=STEPS, ridge=ridge).predictions[1:]
        alike = cosines(own, steps)
        where, control = {"candidate": name}, name != NAMES[number]
        out.add("cosine", NAMES[number], alike.mean(0), control, **where)
        for t, each in enumerate(alike, 1):
            out.add("cosine of a step", NAMES[number], each, control, step=t, **where)
        value = fit.interior
        interior = (
            Estimate(value, value, value, fit.away.shape[0]) if isfinite(value) else UNDEFINED
        )
        out.add("interior", NAMES[number], interior, control, **where)
        out.add("unexplained", NAMES[number], fit.away, control, **where)


class ToldApart(StudyInParts):
    name = "told-apart"
    summary = "CG, preconditioned CG and preconditioned descent at p = 20, as usually compared and by their layers."
    prompts = 128
    seconds = (1.5, 0.12)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        return [partial(compare, number) for number in range(len(SOLVERS))]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "features": FEATURES,
            "supports": SUPPORTS,
            "condition": CONDITION,
            "steps": STEPS,
            "ridge": task().law().ridge,
            "names": list(NAMES),
        }

    def page(self, finding: Finding) -> Page:
        return told_apart_page(finding)
