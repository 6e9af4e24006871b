"""Orders of one CG step: layers, channels and neurons of what compiles, and accuracy of what might.

Textbook CG has two reductions in a step, one after the other. Variants that predict pᵀAp, or update A p,
have fewer, and would take fewer layers. Errors here are those after running on long past convergence,
where round-off is all that is left.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel, LinearAttention, compile
from ridgeformer.compiler.certificate import PROMISE
from ridgeformer.compiler.job import Dtype
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.cg_variants_page import (
    COMPILED,
    PREDICTED,
    SAME,
    TEXTBOOK,
    UPDATED,
    cg_variants_page,
)
from ridgeformer.experiments.studies.cg_variants_solvers import (
    ChronopoulosGear,
    distances,
    extended_cg,
    own_round_off,
    refined_krr,
)
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, PredictedCG, Solver, make_solver, solve
from ridgeformer.statistics import estimate_median
from ridgeformer.tasks import PrescribedSpectrum, Prompt

FEATURES, SUPPORTS, RIDGE = 10, 48, 1.0
STEPS, EARLY = 5 * FEATURES, 2 * FEATURES
"""Steps after which errors are final, and up to which iterates are compared with exact ones."""
SIMULATED: dict[str, Solver] = {
    PREDICTED: ChronopoulosGear(),
    UPDATED: ChronopoulosGear(updated=True),
    SAME: PredictedCG(),
}

MEASURES = {
    "error": "median over prompts of the final error: the largest |f_t − f*| over the queries of a prompt "
    "÷ the largest |f*| of it",
    "ratio": "median over prompts of the final error ÷ that of textbook CG in the same precision",
    "share": "largest over prompts and early steps of the distance to CG in exact arithmetic ÷ what a "
    "certificate allows",
    "layers": "layers that one more step takes",
    "channels": "d_model − p",
    "neurons": "d_mlp",
    "heads": "heads in each layer",
}


@dataclass(frozen=True)
class Scale:
    """The condition numbers for each precision."""

    float64: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5)
    float32: tuple[float, ...] = (1e1, 1e2, 1e3)

    def cases(self) -> list[tuple[Dtype, float]]:
        return [("float64", c) for c in self.float64] + [("float32", c) for c in self.float32]


QUICK = Scale((1e2, 1e4), (1e2,))
"""A smaller plan for fewer than 8 prompts, whose intervals would not justify more."""


def scale_for(prompts: int) -> Scale:
    return Scale() if prompts >= 8 else QUICK


def draw(dtype: Dtype, condition: float, prompts: int, seed: int) -> Prompt:
    task = PrescribedSpectrum(
        features=FEATURES, supports=SUPPORTS, condition=condition, ridge=RIDGE, shape="geometric"
    )
    return task.draw(prompts, seed).to(getattr(torch, dtype))


def compiled(name: str, dtype: Dtype, condition: float, steps: int = STEPS) -> CompiledModel:
    # Rounded to float32, data may exceed the largest eigenvalue a little.
    to = LinearAttention((condition - 1) * RIDGE * (1 + 1e-6))
    return compile(
        make_solver(name), features=FEATURES, steps=steps, ridge=RIDGE, dtype=dtype, to=to
    )


def run(solver: Solver, prompt: Prompt) -> Tensor:
    return solve(solver, prompt, steps=STEPS, ridge=RIDGE).predictions


def measure_sizes(name: str, dtype: Dtype, condition: float, out: Collector) -> None:
    few, many = (compiled(name, dtype, condition, t).transformer.config for t in (3, 4))
    where = {"dtype": dtype, "condition": condition}
    out.exact("layers", name, many.n_layers - few.n_layers, **where)
    out.exact("channels", name, many.d_model - FEATURES, **where)
    out.exact("neurons", name, many.d_mlp, **where)
    out.exact("heads", name, many.n_heads, **where)


def measure_case(dtype: Dtype, condition: float, out: Collector) -> None:
    """All methods on the same prompts, in one precision and at one condition number."""
    prompts, seed = out.prompts, out.seed
    prompt = draw(dtype, condition, prompts, seed)
    found = {TEXTBOOK: run(ConjugateGradient(), prompt)}
    for name in COMPILED:
        found[name] = trajectory(compiled(name, dtype, condition), prompt).predictions
        measure_sizes(name, dtype, condition, out)
    found |= {name: run(solver, prompt) for name, solver in SIMULATED.items()}
    solution, iterates = refined_krr(prompt, RIDGE), extended_cg(prompt, RIDGE, EARLY)
    size = distances(solution, 0 * solution)
    final = {name: distances(values[-1].numpy(), solution) for name, values in found.items()}

    def textbook(one: Prompt) -> Tensor:
        return run(ConjugateGradient(), one)[: EARLY + 1]

    relative, factor = PROMISE[dtype]
    largest = distances(iterates, 0 * iterates).amax(0)
    own = own_round_off(textbook, prompt, iterates, seed)
    allowed = torch.maximum(relative * largest, factor * own)
    least = torch.finfo(torch.float64).tiny
    for name, errors in final.items():
        where = {"dtype": dtype, "condition": condition}
        control = name in (TEXTBOOK, SAME)
        ratio = errors / final[TEXTBOOK].clamp(min=least)
        out.add("error", name, estimate_median(errors / size, seed), control, **where)
        out.add("ratio", name, estimate_median(ratio, seed), control, **where)
        share = distances(found[name][: EARLY + 1].numpy(), iterates) / allowed
        out.exact("share", name, float(share.max()), control, **where)


class CGVariants(StudyInParts):
    name = "cg-variants"
    summary = "Orders of a CG step: layers, sizes, and what predicting pᵀAp or updating A p costs."
    prompts = 32
    seconds = (1.4, 1.1)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        return [partial(measure_case, *case) for case in scale_for(prompts).cases()]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "features": FEATURES,
            "supports": SUPPORTS,
            "ridge": RIDGE,
            "steps": STEPS,
            "early steps": EARLY,
        } | asdict(scale_for(prompts))

    def page(self, finding: Finding) -> Page:
        return cg_variants_page(finding)
