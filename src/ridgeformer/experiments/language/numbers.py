"""One prompt of written numbers, as a task whose result is kept; errors of its answers beside those of references, and
whether they follow any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import (
    MeanTarget,
    Predictor,
    find_agreement,
    likeliest_process,
    neighbours,
    ridge_on_inputs,
)
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
)
from ridgeformer.experiments.language.gathered import WEIGHTS
from ridgeformer.experiments.language.number_states import RIDGE, choose_on_states, states_of
from ridgeformer.language import Problems, expectations, number_answers, prompts
from ridgeformer.language.tasks import NumericTask
from ridgeformer.statistics import Estimate, estimate_of
from ridgeformer.tasks import Prompt

SIZES = (2, 8, 32)
"""How many supports the prompts of numbers have."""
SMALL = 1e-3
"""λ of ridge regression on inputs, which lie between 0 and 1 beside a column of ones."""
FOLLOWED = (8, 32)
"""The sizes at which the model's answers are compared with what references say, beyond the size of errors."""
MODEL, MEAN, UNTRAINED = "language model", "mean", "ridge on states, untrained"

Said = dict[str, Float[Tensor, "batch q"]]
"""What each predictor answers, by its name."""

MEASURES = {
    "RMSE": "root of the mean squared error of the expected number",
    "RMSE over the mean's": "that over the one of the mean of the supports' targets",
    "RMSE over the model's": "that over the one of the language model's expected numbers",
    "unparseable": "share of greedy answers that are no number of the format",
    "mass": "probability that the answer is a number of the format",
    "answers": "correlation of expected and predicted numbers over the queries of a prompt",
    "answers given truth": "the same after the true numbers are regressed out of both",
    "errors": "correlation of what the expected and the predicted numbers are off, over the queries of a prompt",
}


@dataclass(frozen=True)
class NumberPrompt:
    """One prompt of a task, by its number among those of a seed."""

    directory: str
    model: str
    """The fingerprint of the model."""
    task: NumericTask
    seed: int
    number: int

    def problem(self) -> Problems:
        return drawn(self.task, self.seed, self.number)

    def describe(self) -> dict[str, Any]:
        return {
            "language model": "numbers", "method": METHOD, "model": self.model, "task": self.task.settings(),
            "seed": self.seed, "number": self.number, "problem": digest(self.problem()),
        }  # fmt: skip

    def run(self) -> Result:
        model, written = loaded(self.directory), self.task.number_format()
        (prompt,) = prompts(model, self.task, self.problem())
        answers = number_answers(model, prompt, written)
        return {
            "expected": packed(expectations(answers.scores, written)),
            "mass": packed(answers.mass),
            "unparseable": answers.unparseable,
        }


def number_prompts_of(
    directory: str, model: str, task: NumericTask, prompts: int, seed: int
) -> list[NumberPrompt]:
    """The prompts of a task at every size."""
    sized = [replace(task, supports=k) for k in SIZES]
    return [NumberPrompt(directory, model, t, seed, n) for t in sized for n in range(prompts)]


def score(
    tasks: Sequence[NumberPrompt], results: list[Result], out: Collector
) -> dict[str, dict[str, Any]]:
    """Adds errors of the model and of every reference, at each number of supports, and whether the model follows any.

    What references are free to choose suits problems of the seed before, which are not scored; what was chosen for states
    is returned, by number of supports.
    """
    choices = {}
    for k in SIZES:
        chosen = [n for n, task in enumerate(tasks) if task.task.supports == k]
        if not chosen:
            continue
        one = tasks[chosen[0]]
        problems = joined([tasks[n].problem() for n in chosen])
        before = joined([drawn(one.task, one.seed - 1, tasks[n].number) for n in chosen])
        where = out.within(task=one.task.name, supports=k)
        of_states, choices[str(k)] = said_on_states(one.directory, one.task, problems, before)
        own = [results[n] for n in chosen]
        said = {MODEL: expected(own), **said_on_inputs(one.task, problems, before), **of_states}
        truth = problems.query_targets.double()
        add_errors(said, truth, where)
        add_answers(own, where)
        if k in FOLLOWED:
            add_agreement(said, truth, where)
    return choices


def expected(results: list[Result]) -> Float[Tensor, "batch q"]:
    return torch.stack([unpacked(r["expected"]) for r in results]).double()


def said_on_inputs(task: NumericTask, problems: Problems, before: Problems) -> Said:
    prompt, mean = scaled(problems, task)
    found = references(scaled(before, task)[0])
    return {name: one.predict(prompt)[..., 0] + mean for name, one in found.items()}


def said_on_states(
    directory: str, task: NumericTask, problems: Problems, before: Problems
) -> tuple[Said, dict[str, Any]]:
    """Predictions from the model's states of inputs alone, and from those of untrained weights; and what was chosen."""
    mean = problems.targets.double().mean(1, keepdim=True)
    choices, said = [], []
    for weights in (None, WEIGHTS):
        choices.append(choose_on_states(states_of(directory, weights, task, before)))
        said.append(choices[-1].predict(states_of(directory, weights, task, problems)))
    own, control = said
    found = {**own, UNTRAINED: control[RIDGE]}
    plain = {"trained": choices[0].to_dict(), "untrained": choices[1].to_dict()}
    return {name: values + mean for name, values in found.items()}, plain


def add_errors(said: Said, truth: Float[Tensor, "batch q"], out: Collector) -> None:
    """The errors of each, also over those of the mean and over the model's, on the same prompts."""
    squares = {name: (values - truth).square().mean(-1) for name, values in said.items()}
    for name, values in squares.items():
        control = name != MODEL
        out.add("RMSE", name, rooted(values, out.seed), control)
        for measure, other in (("RMSE over the mean's", MEAN), ("RMSE over the model's", MODEL)):
            both = torch.stack([values, squares[other]], dim=1)
            ratio = estimate_of(both, lambda m: (m[:, 0] / m[:, 1]).sqrt(), out.seed)
            out.add(measure, name, ratio, control)


def add_answers(results: list[Result], out: Collector) -> None:
    """How often greedy answers are no number, and how probable numbers are."""
    mass = torch.stack([unpacked(r["mass"]) for r in results]).double()
    bad = torch.tensor([float(r["unparseable"]) for r in results]) / mass.shape[1]
    out.add("unparseable", MODEL, bad.double())
    out.add("mass", MODEL, mass.mean(-1))


def add_agreement(said: Said, truth: Float[Tensor, "batch q"], out: Collector) -> None:
    """Whether the model's answers follow each reference."""
    for name, values in said.items():
        if name == MODEL:
            continue
        found = find_agreement(said[MODEL], values, truth, seed=out.seed)
        control = name in (MEAN, UNTRAINED)
        out.add("answers", name, found.within, control)
        out.add("answers given truth", name, found.given_truth, control)
        out.add("errors", name, found.errors, control)


def rooted(squares: Float[Tensor, " batch"], seed: int) -> Estimate:
    return estimate_of(squares, torch.sqrt, seed)


def references(before: Prompt) -> dict[str, Predictor]:
    """What the model is compared with, on inputs as numbers."""
    return {
        MEAN: MeanTarget(),
        "1-NN": neighbours(1),
        "ridge on inputs": ridge_on_inputs(SMALL),
        "GP": likeliest_process(before),
    }


def scaled(problems: Problems, task: NumericTask) -> tuple[Prompt, Float[Tensor, "batch 1"]]:
    """Inputs between 0 and 1, and targets less the mean of each problem's, which is returned too."""
    assert problems.features is not None
    assert problems.query_features is not None
    values = task.number_format().values
    low, high = float(values[0]), float(values[-1])
    mean = problems.targets.mean(1, keepdim=True)
    x, asked = ((f.double() - low) / (high - low) for f in (problems.features, problems.query_features))  # fmt: skip
    return Prompt(x, (problems.targets - mean)[..., None], asked), mean
