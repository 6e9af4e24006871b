"""Evaluates a model, prints one table for each task, and writes the page and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ridgeformer.compiler import CompiledModel
from ridgeformer.experiments.evaluation.measure import measure
from ridgeformer.experiments.evaluation.page import page_of
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.models import Model, load
from ridgeformer.tasks import LEARNABLE, LearnableTask
from ridgeformer.training import Recipe
from ridgeformer.types import Refusal


def evaluate(
    directory: str | Path,
    out: str | Path,
    *,
    tasks: Sequence[str] = (),
    prompts: int = 512,
    seed: int = 0,
    baselines: Sequence[str] | None = None,
    steps: int | None = None,
    console: Console | None = None,
) -> Finding:
    """Measures the model that `directory` holds on its own task, or on those that are named.

    Iterative baselines take `steps` steps, or their own number if it is None.
    """
    if prompts < 8:
        raise Refusal(f"Intervals over quarters of the prompts need at least 8, got {prompts}.")
    if steps is not None and steps < 1:
        raise Refusal(f"Iterative baselines need at least one step; got steps = {steps}.")
    check_seed(seed, below=62)
    model = load(directory)
    chosen = tasks_of(model, tasks)
    run = Run(out, "results.json", console)
    finding = measure(model, chosen, prompts, seed, run.track, baselines, steps)
    finding = replace(finding, settings={**described(model, directory), **finding.settings})
    page = page_of(finding)
    run.show(page.terminal)
    run.write(page, finding.to_dict() | {"interval": "95 % paired bootstrap over prompts"})
    return finding


def described(model: Model, directory: str | Path) -> dict[str, Any]:
    """What the model is, and with how many supports it was trained."""
    name = Path(directory).absolute().name
    if isinstance(model, CompiledModel):
        c = model.certificate
        return {"model": f"{name}: compiled {c.solver}, {c.steps} steps", "trained supports": None}
    recipe = model.recipe
    return {
        "model": f"{name}: trained on {recipe.task.name}, {recipe.model.layout} layout, recipe {recipe.name}",
        "trained supports": model.layout.longest(recipe.task),
    }


def tasks_of(model: Model, names: Sequence[str]) -> dict[str, LearnableTask]:
    """The model's own task, or those that names and recipes give, by label."""
    if not names:
        if isinstance(model, CompiledModel):
            known = ", ".join(LEARNABLE)
            raise Refusal(
                f"A compiled model has no task of its own: give `tasks`, from {known}, or a recipe."
            )
        return {model.recipe.task.name: model.recipe.task}
    found: dict[str, LearnableTask] = {}
    for name in names:
        label, task = task_of(model, name)
        if label in found:
            raise Refusal(f"`tasks` has {label!r} twice: name each once.")
        found[label] = task
    return found


def task_of(model: Model, name: str) -> tuple[str, LearnableTask]:
    if name in LEARNABLE:
        if isinstance(model, CompiledModel):
            return name, LEARNABLE[name](features=model.certificate.features)
        own = model.recipe.task
        return name, own if own.name == name else LEARNABLE[name](features=own.features)
    if not name.endswith(".toml") and not Path(name).exists():
        known = ", ".join(LEARNABLE)
        raise Refusal(f"There is no task {name!r}: choose from {known}, or give a recipe.toml.")
    recipe = Recipe.load(name)
    return recipe.name, recipe.task
