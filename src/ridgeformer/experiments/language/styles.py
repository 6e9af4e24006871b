"""How often a model is right under each style of labels, and how that grows with examples.

Every style has the same problems, so that styles are compared prompt by prompt. References are the nearest neighbour and class
centroids on states of isolated inputs, at a layer and in a normalisation that are fixed beforehand; labels play no part for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import Centroids, Predictor, neighbours
from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.jobs import Result
from ridgeformer.experiments.language.asked import (
    METHOD,
    digest,
    drawn,
    joined,
    loaded,
    packed,
    unpacked,
    untrained,
)
from ridgeformer.experiments.language.gathered import WEIGHTS
from ridgeformer.experiments.language.names import MODEL, UNTRAINED
from ridgeformer.experiments.language.outputs import accuracies, centred_unit
from ridgeformer.language import (
    LABELS,
    LANGUAGE_TASKS,
    LanguageModel,
    LanguageTask,
    Problems,
    isolated_states,
    labels_of,
    log_odds,
    prompts,
    scores,
)
from ridgeformer.language.tasks import ClassTask, FlippedLabels, RelabelledTask
from ridgeformer.tasks import Prompt

PLAIN = "A/B"
"""The style that others are compared with, and that of learning curves."""
QUERIES = 12
"""Half of them of either class."""
SIZES = (2, 4, 8, 16, 32, 64)
SUPPORTS = 16
"""So many examples have all styles."""
MOST_PROMPTS = 16
DEPTH = 0.6
"""Where in the model the states of the references are read: at layer 18 of 30."""

MEASURES = {
    "accuracy by labels": "share of queries whose label is right, mean over prompts, by style of labels and number of supports",
    "labels less A/B": "that share less the one with labels A/B on the same problems, with the label bias centred",
}


@dataclass(frozen=True)
class StylePrompt:
    """One prompt of a task under one style of labels, by its number among those of a seed."""

    directory: str
    model: str
    """The fingerprint of the model."""
    task: LanguageTask
    labels: str
    seed: int
    number: int

    def problem(self) -> Problems:
        return drawn(self.task, self.seed, self.number)

    def describe(self) -> dict[str, Any]:
        return {
            "language model": "labels", "method": METHOD, "model": self.model, "task": self.task.settings(),
            "labels": list(labels_of(self.task, self.labels)), "seed": self.seed, "number": self.number,
            "problem": digest(self.problem()),
        }  # fmt: skip

    def run(self) -> Result:
        model = loaded(self.directory)
        built = prompts(model, self.task, self.problem(), self.labels)
        return {"outputs": packed(log_odds(scores(model, built))[0])}


def styled_tasks(names: Sequence[str]) -> list[LanguageTask]:
    """The named tasks in which a label can be right, or all that are registered."""
    kinds = [LANGUAGE_TASKS.find(name) for name in names] or list(LANGUAGE_TASKS.values())
    tasks = [kind() for kind in kinds if issubclass(kind, (ClassTask, FlippedLabels))]
    roomy = [task for task in tasks if has_room(task, SUPPORTS)]
    return [replace(task, supports=SUPPORTS, queries=QUERIES) for task in roomy]


def has_room(task: LanguageTask, supports: int) -> bool:
    """Whether a task has inputs for so many supports, and for the queries."""
    drawn_by = task.inputs_of() if isinstance(task, RelabelledTask) else task
    assert isinstance(drawn_by, ClassTask)
    return (supports + QUERIES) // 2 <= min(map(len, drawn_by.members))


def style_jobs(
    directory: str, known: str, names: Sequence[str], curves: Sequence[str], count: int, seed: int
) -> dict[str, list[StylePrompt]]:
    """For each task its prompts in every style, and for those in `curves` those of other sizes, unless words
    or the model's context do not suffice."""
    found = {}
    for task in styled_tasks(names):
        numbers = range(min(count, MOST_PROMPTS))
        found[task.name] = [
            StylePrompt(directory, known, task, style, seed, n) for style in LABELS for n in numbers
        ]
        if task.name not in curves:
            continue
        for size in (s for s in SIZES if s != SUPPORTS and has_room(task, s)):
            jobs = [StylePrompt(directory, known, replace(task, supports=size), PLAIN, seed, n) for n in numbers]  # fmt: skip
            if fits(loaded(directory), jobs):
                found[task.name] += jobs
    return found


def fits(model: LanguageModel, jobs: Sequence[StylePrompt]) -> bool:
    """Whether the model reads every prompt of these."""
    for job in jobs:
        (prompt,) = prompts(model, job.task, job.problem(), job.labels)
        answer = max(map(len, prompt.choices.tokens))
        if max(map(len, prompt.sequences)) + answer - 1 > model.context:
            return False
    return True


def score(jobs: Sequence[StylePrompt], results: list[Result], out: Collector) -> None:
    """Adds the accuracies of one task, those of the references, and differences between styles."""
    out = out.within(task=jobs[0].task.name)
    centred = {}
    for size in sorted({job.task.supports for job in jobs}):
        here = out.within(supports=size)
        for style in dict.fromkeys(job.labels for job in jobs):
            chosen = [n for n, job in enumerate(jobs) if (job.labels, job.task.supports) == (style, size)]  # fmt: skip
            if not chosen:
                continue
            problems = joined([jobs[n].problem() for n in chosen])
            said = torch.stack([unpacked(results[n]["outputs"]) for n in chosen]).double()
            found = accuracies(said, 2.0 * problems.query_targets - 1.0)
            for bias, right in found.items():
                here.add("accuracy by labels", MODEL, right, labels=style, bias=bias)
            if size == SUPPORTS:
                centred[style] = found["centred"]
            if style == PLAIN:
                add_references(jobs[chosen[0]], problems, here)
    for style, right in centred.items():
        if style != PLAIN:
            out.add("labels less A/B", MODEL, right - centred[PLAIN], labels=style)


def add_references(job: StylePrompt, problems: Problems, out: Collector) -> None:
    truth = 2.0 * problems.query_targets - 1.0
    one: Predictor = neighbours(1)
    for weights, model in {
        "": loaded(job.directory),
        UNTRAINED: untrained(job.directory, WEIGHTS),
    }.items():
        prompt = isolated_prompt(model, job.task, problems)
        for name, predictor in {"1-NN": one, "class centroids": Centroids()}.items():
            found = accuracies(predictor.predict(prompt)[..., 0], truth)
            for bias, right in found.items():
                out.add("accuracy by labels", name + weights, right, True, bias=bias)


def isolated_prompt(model: LanguageModel, task: LanguageTask, problems: Problems) -> Prompt:
    """Problems on states of isolated inputs of one layer, less the mean of their supports, and of length 1."""
    built = prompts(model, task, problems, PLAIN)
    states = isolated_states(model, built, [reference_layer(model)])[:, :, 0].double()
    k = problems.supports
    supports, queries = centred_unit(states[:, :k], states[:, k:])
    return Prompt(supports, targets_of(problems), queries)


def targets_of(problems: Problems) -> Float[Tensor, "batch k 1"]:
    return (2.0 * problems.targets - 1.0).double()[..., None]


def reference_layer(model: LanguageModel) -> int:
    return round(DEPTH * model.layers)


def settings_of(model: LanguageModel, jobs: dict[str, list[StylePrompt]]) -> dict[str, Any]:
    """What was fixed, as plain data."""
    return {
        "tasks": list(jobs),
        "labels": list(LABELS),
        "supports": SUPPORTS,
        "queries": QUERIES,
        "prompts": max((1 + job.number for own in jobs.values() for job in own), default=0),
        "layer of references": reference_layer(model),
        "curves": {
            name: sizes
            for name, own in jobs.items()
            if len(sizes := sorted({job.task.supports for job in own})) > 1
        },
    }
