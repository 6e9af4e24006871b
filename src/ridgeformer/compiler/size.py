"""How large a model becomes: measured on a made one, and foreseen from short ones before it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.job import Job
from ridgeformer.compiler.passes.assemble import MOST_WEIGHTS
from ridgeformer.types import Refusal

MOST_LAYERS = 2**15
"""A model of more layers is refused: as objects of Python they would take gigabytes, too."""

SHORT, LONG = (8, 16), 256
"""A model of more than `LONG` steps is foreseen from models of so few; steps are alike from some step on."""

NARROW, WIDE = 16, 128
"""A model of more than `WIDE` outputs is foreseen from one of `NARROW`."""


def check_size(job: Job, made: Callable[[Job], CompiledModel]) -> None:
    """Refuses what would make too large a model, before it is made; `made` compiles smaller jobs."""
    if job.looped or job.solver.smooths:
        return
    if job.outputs > WIDE:
        check_outputs(job, made)
    if job.steps > LONG:
        check_steps(job, made)


def check_outputs(job: Job, made: Callable[[Job], CompiledModel]) -> None:
    """Heads carry r channels into a stream of more than r, so that weights grow at least as r²."""
    narrow = size_report(made(replace(job, outputs=NARROW, steps=min(job.steps, 2))))
    if narrow["parameters"] * (job.outputs / NARROW) ** 2 > MOST_WEIGHTS:
        raise Refusal(
            f"{job.outputs:,} outputs would take more than the {MOST_WEIGHTS:,} weights that are built: use fewer "
            "`outputs`, such as a model for each of a few."
        )


def check_steps(job: Job, made: Callable[[Job], CompiledModel]) -> None:
    few, more = (size_report(made(replace(job, steps=steps))) for steps in SHORT)

    def foreseen(name: str) -> float:
        each = (more[name] - few[name]) / (SHORT[1] - SHORT[0])
        return float(more[name] + each * (job.steps - SHORT[1]))

    layers, weights = foreseen("layers"), foreseen("parameters")
    share = max(layers / MOST_LAYERS, weights / MOST_WEIGHTS)
    if share <= 1:
        return
    remedy = f"use at most {int(job.steps / share):,}"
    if can_loop(job, made):
        remedy = f"hold one step, with `looped=True`, or {remedy}"
    raise Refusal(
        f"`steps` {job.steps:,} would take {layers:,.0f} layers with {weights:,.0f} weights in all, more than the "
        f"{MOST_LAYERS:,} layers or {MOST_WEIGHTS:,} weights that are built: {remedy}."
    )


def can_loop(job: Job, made: Callable[[Job], CompiledModel]) -> bool:
    try:
        made(replace(job, looped=True))
    except Refusal:
        return False
    return True


def size_report(model: CompiledModel) -> dict[str, Any]:
    """The numbers that describe a compiled model's size."""
    config = model.transformer.config
    first, stop = config.loop or (0, config.n_layers)
    steps = 1 if model.certificate.looped else model.certificate.steps
    projection = model.certificate.kernel.get("projection")
    kept = model.certificate.features if projection is None else len(projection)
    return {
        "layers": config.n_layers,
        "layers per step": (stop - first) / steps,
        "d_model": config.d_model,
        "kept features": kept,
        "beyond features": config.d_model - kept,
        "heads": config.n_heads,
        "d_head": config.d_head,
        "d_mlp": config.d_mlp,
        "parameters": sum(p.numel() for p in model.transformer.parameters()),
        "nonzero parameters": sum(int(p.count_nonzero()) for p in model.transformer.parameters()),
    }
