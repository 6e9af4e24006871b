"""Evaluates a model, prints one table for each task, and writes the page and its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ridgeformer.experiments.evaluation.measure import TRIED, Case, measure, seconds_of
from ridgeformer.experiments.evaluation.page import page_of
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.jobs import Store
from ridgeformer.experiments.kept import at_once, kept_in
from ridgeformer.experiments.named import chosen_model, described, fingerprint, tasks_of
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
    store: Store | None = None,
) -> Finding:
    """Measures a model on its own task, or on those that are named.

    With a store, what is found is kept there at once, and the same call goes on from there.

    directory   the directory of the model, or the name of a shipped one
    out   the directory of the page and its numbers
    tasks   the tasks to measure on, the model's own if none is named
    prompts   how many prompts of each task
    seed   the seed of the prompts
    baselines   the names of the baselines beside it, all if it is None
    steps   how many steps iterative baselines take, their own number if it is None
    device   where the model runs; everything that it is compared with runs on the CPU
    console   where progress and the table are printed
    store   where finished parts of the work are kept
    """
    if prompts < 8:
        raise Refusal(f"Intervals over quarters of the prompts need at least 8, got {prompts}.")
    if steps is not None and steps < 1:
        raise Refusal(f"Iterative baselines need at least one step; got steps = {steps}.")
    check_seed(seed, below=62)
    model = chosen_model(directory).to(device_named(device))
    chosen = tasks_of(model, tasks)
    run = Run(out, "results.json", console)
    of = {
        "experiment": "evaluate", "model": fingerprint(directory), "baselines": baselines, "steps": steps,
        "tasks": {label: task.to_dict() for label, task in chosen.items()}, "prompts": prompts, "seed": seed,
    }  # fmt: skip

    def progress(cases: Sequence[Case]) -> Iterable[Case]:
        run.say_how_long(
            seconds_of(cases, prompts), f"Measuring {len(cases)} settings of {prompts} prompts",
            "The fast form, or no baselines, takes less." if prompts > TRIED[-1] else "",
        )  # fmt: skip
        return run.track(cases)

    with nullcontext(at_once) if store is None else kept_in(store, of) as keep:
        run.console.print("Fitting baselines and timing a few prompts first.", highlight=False)
        finding = measure(model, chosen, prompts, seed, progress, baselines, steps, keep)
        finding = replace(finding, settings={**described(model, directory), **finding.settings})
        page = page_of(finding)
        run.show(page.terminal)
        run.write(page, finding.to_dict() | {"interval": "95 % paired bootstrap over prompts"})
    return finding
