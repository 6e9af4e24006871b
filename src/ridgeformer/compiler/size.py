"""How large a model becomes: measured on a made one, and foreseen from short ones before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.passes.assemble import MOST_WEIGHTS
from ridgeformer.types import Refusal

MOST_LAYERS = 2**15
"""A model of more layers is refused: as objects of Python they would take gigabytes, too."""

SHORT = (8, 16)
"""Steps of the models that a long one is foreseen from; steps are alike from some step on."""


def check_size(steps: int, made: Callable[[int], CompiledModel], loops: Callable[[], bool]) -> None:
    """Refuses so many steps if they would make too large a model.

    `made` compiles fewer steps, and `loops` says whether the solver can be looped instead.
    """
    if steps <= 16 * SHORT[1]:
        return
    few, more = (size_report(made(number)) for number in SHORT)

    def foreseen(name: str) -> float:
        each = (more[name] - few[name]) / (SHORT[1] - SHORT[0])
        return float(more[name] + each * (steps - SHORT[1]))

    layers, weights = foreseen("layers"), foreseen("parameters")
    share = max(layers / MOST_LAYERS, weights / MOST_WEIGHTS)
    if share <= 1:
        return
    remedy = f"use at most {int(steps / share):,}"
    if loops():
        remedy = f"hold one step, with `looped=True`, or {remedy}"
    raise Refusal(
        f"`steps` {steps:,} would take {layers:,.0f} layers with {weights:,.0f} weights in all, more than the "
        f"{MOST_LAYERS:,} layers or {MOST_WEIGHTS:,} weights that are built: {remedy}."
    )


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
