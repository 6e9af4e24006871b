"""Evaluates a model, prints one table for each task, and writes the page and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ridgeformer.experiments.chosen import chosen_model, described, tasks_of
from ridgeformer.experiments.evaluation.measure import measure
from ridgeformer.experiments.evaluation.page import page_of
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.transformer import device_named
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
    device: str = "cpu",
    console: Console | None = None,
) -> Finding:
    """Measures a model on its own task, or on those that are named.

    `directory` holds the model, or is the name of a shipped one. Iterative baselines take `steps` steps, or their own number if it is None.
    The model runs on `device`, and everything that it is compared with on the CPU.
    """
    if prompts < 8:
        raise Refusal(f"Intervals over quarters of the prompts need at least 8, got {prompts}.")
    if steps is not None and steps < 1:
        raise Refusal(f"Iterative baselines need at least one step; got steps = {steps}.")
    check_seed(seed, below=62)
    model = chosen_model(directory).to(device_named(device))
    chosen = tasks_of(model, tasks)
    run = Run(out, "results.json", console)
    finding = measure(model, chosen, prompts, seed, run.track, baselines, steps)
    finding = replace(finding, settings={**described(model, directory), **finding.settings})
    page = page_of(finding)
    run.show(page.terminal)
    run.write(page, finding.to_dict() | {"interval": "95 % paired bootstrap over prompts"})
    return finding
