"""Identifies a model, prints the verdict and the candidates, and writes the page and its numbers."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ridgeformer.compiler import CompiledModel
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.identification.answer import PROMPTS, identify
from ridgeformer.experiments.identification.calibration import Calibration, shipped
from ridgeformer.experiments.identification.inquiry import Guess
from ridgeformer.experiments.identification.page import page_of
from ridgeformer.experiments.jobs import Store
from ridgeformer.experiments.kept import Keep, at_once, kept_in
from ridgeformer.experiments.named import (
    chosen_model,
    described,
    fingerprint,
    task_of,
    tasks_of,
)
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.kernels import kernel_from
from ridgeformer.models import Model, Subject
from ridgeformer.models import subject as subject_of
from ridgeformer.tasks import LearnableTask
from ridgeformer.transformer import device_named

QUERIES = 8
"""So many queries of a prompt are read; no query of a saved model sees another one."""


def identify_model(
    name: str | Path,
    out: str | Path,
    *,
    task: str | None = None,
    prompts: int = PROMPTS,
    seed: int = 0,
    calibration: str | Path | None = None,
    steps: int | None = None,
    device: str = "cpu",
    console: Console | None = None,
    store: Store | None = None,
) -> Finding:
    """Identifies the model of a directory, or the shipped model of that name, on its own task or on `task`.

    A looped model runs as many steps as `steps` says. The model runs on `device`, and what is made of its answers is
    computed on the CPU. With a store, what is found is kept there at once, and
    the same call goes on from there.
    """
    check_seed(seed, below=62)
    known = shipped() if calibration is None else Calibration.load(calibration)
    model = chosen_model(name).to(device_named(device))
    if task is None:
        (asked,) = tasks_of(model, ()).values()
    else:
        asked = task_of(model, task)[1]
    asked = replace(asked, queries=QUERIES)
    about = described(model, name)["model"]
    one = subject_of(model, steps=steps, name=about.partition(": ")[0])
    prompt = asked.draw(max(prompts, 1), seed)
    model.check(prompt)
    of = {
        "experiment": "identify", "model": fingerprint(name), "name": one.name, "task": asked.to_dict(),
        "prompts": prompts, "seed": seed, "steps": steps,
    }  # fmt: skip
    with nullcontext(at_once) if store is None else kept_in(store, of) as keep:
        return report(
            one,
            asked,
            out,
            prompts=prompts,
            seed=seed,
            calibration=known,
            guess=guess_of(model, asked),
            about=about.partition(": ")[2],
            console=console,
            keep=keep,
        )


def guess_of(model: Model, task: LearnableTask) -> Guess | None:
    """A compiled model's own kernel and λ, where the search may begin; its solver is not told."""
    if not isinstance(model, CompiledModel):
        return None
    laws, c = task.laws(), model.certificate
    ridge = c.ridge if c.ridge is not None else laws[0].ridge if laws else 1.0
    return Guess(kernel_from(c.kernel), ridge, "the model's certificate")


def report(
    subject: Subject,
    task: LearnableTask,
    out: str | Path,
    *,
    prompts: int = PROMPTS,
    seed: int = 0,
    calibration: Calibration | None = None,
    guess: Guess | None = None,
    about: str = "",
    console: Console | None = None,
    keep: Keep = at_once,
) -> Finding:
    """Identifies any subject, prints the verdict and the candidates, and writes findings.json and the page."""
    run = Run(out, "findings.json", console)
    with run.bars() as track:
        finding = identify(
            subject,
            task,
            prompts=prompts,
            seed=seed,
            calibration=calibration,
            guess=guess,
            track=track,
            keep=keep,
        )
    finding = replace(finding, settings={**finding.settings, "about": about})
    page = page_of(finding)
    run.show(page.terminal)
    verdict = finding.settings["verdict"]
    trust = finding.settings["calibration"]["sentence"]
    for said in (verdict["sentence"], verdict["what would change it"], trust):
        run.console.print(said, markup=False, highlight=False)
    run.write(page, finding.to_dict())
    return finding
