"""States put into compiled models: does what the solver predicts come out, and does anything else do the same?

Each model's answer is known, its stream is turned by a random orthogonal matrix, and the subspace of a state is found by
readouts alone, as it would be in a trained model.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.interchange import find_interchanges
from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, compile
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.identification.planted import Rotated
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.interchange_page import CONTROLS, interchange_page
from ridgeformer.kernels import Linear
from ridgeformer.models import subject
from ridgeformer.models.reference import interval_of
from ridgeformer.solvers import Solver, kernel_eigenvalues, make_solver
from ridgeformer.tasks import LinearRegression, generator_of

FEATURES, SUPPORTS, QUERIES, CONDITION, STEPS = 6, 18, 6, 30.0, 5
SOLVERS: tuple[Solver, ...] = (
    make_solver("gd"),
    make_solver("heavy-ball"),
    make_solver("chebyshev"),
    make_solver("cg"),
    make_solver("cg", "jacobi"),
)

MEASURES = {
    "effect": "correlation of the predicted effect with the actual one, over prompts and queries",
    "slope": "slope of the actual effect on the predicted one",
    CONTROLS[
        0
    ]: "correlation of the predicted contrast with that of the same change in random directions",
    CONTROLS[
        1
    ]: "correlation of the contrast at the layers of other steps with what is predicted for this step alone",
}


def task() -> LinearRegression:
    return LinearRegression(
        features=FEATURES, supports=SUPPORTS, queries=QUERIES, condition=CONDITION
    )


def exchange(number: int, out: Collector) -> None:
    """All steps of one model."""
    solver, ridge = SOLVERS[number], task().law().ridge
    prompt = task().draw(out.prompts, out.seed)
    other = task().relabel(prompt, generator_of(out.seed, number))
    top = 1.1 * float(kernel_eigenvalues(prompt).max())
    to = LinearAttention(top, None if solver.precondition == "none" else Exact())
    model = compile(solver, features=FEATURES, steps=STEPS, ridge=ridge, to=to)
    assert isinstance(model, CompiledModel)
    candidate = Candidate(solver)
    found = find_interchanges(
        Rotated(subject(model), out.seed), prompt, other, candidate,
        Setting(Linear(), ridge, *interval_of(model)), STEPS, seed=out.seed,
    )  # fmt: skip
    for one in found.steps:
        where: dict[str, float | str] = {"step": one.step, "of": " and ".join(one.quantities)}
        out.add("effect", candidate.name, one.correlation, **where)
        out.add("slope", candidate.name, one.slope, **where)
        for control, value in zip(CONTROLS, (one.random_direction, one.elsewhere), strict=True):
            out.add(control, candidate.name, value, True, **where)


class Interchange(StudyInParts):
    name = "interchange"
    summary = "States of another prompt put into compiled models: predicted against actual effect, with controls."
    prompts = 1536
    seconds = (4.2, 0.073)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        return [partial(exchange, number) for number in range(len(SOLVERS))]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "features": FEATURES,
            "supports": SUPPORTS,
            "condition": CONDITION,
            "steps": STEPS,
            "ridge": task().law().ridge,
            "names": [Candidate(solver).name for solver in SOLVERS],
            "scored": prompts // 4,
        }

    def page(self, finding: Finding) -> Page:
        return interchange_page(finding)
