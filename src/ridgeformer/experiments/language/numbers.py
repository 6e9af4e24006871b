"""One prompt of written numbers, as a task whose result is kept, and errors of its answers beside those of references."""

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
from ridgeformer.language import Problems, expectations, number_answers, prompts
from ridgeformer.language.tasks import NumericTask
from ridgeformer.statistics import Estimate, estimate_of
from ridgeformer.tasks import Prompt

SIZES = (2, 8, 32)
"""How many supports the prompts of numbers have."""
SMALL = 1e-3
"""λ of ridge regression on inputs, which lie between 0 and 1 beside a column of ones."""
MODEL = "language model"

MEASURES = {
    "RMSE": "root of the mean squared error of the expected number",
    "RMSE over the mean's": "that over the one of the mean of the supports' targets",
    "unparseable": "share of greedy answers that are no number of the format",
    "mass": "probability that the answer is a number of the format",
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


def score(tasks: Sequence[NumberPrompt], results: list[Result], out: Collector) -> None:
    """Adds errors of the model and of every reference, at each number of supports.

    The Gaussian process has the scales that are likeliest for prompts of the seed before, which are not scored.
    """
    for k in SIZES:
        chosen = [n for n, task in enumerate(tasks) if task.task.supports == k]
        if not chosen:
            continue
        one = tasks[chosen[0]]
        problems = joined([tasks[n].problem() for n in chosen])
        before = joined([drawn(one.task, one.seed - 1, tasks[n].number) for n in chosen])
        where = out.within(task=one.task.name, supports=k)
        add_errors(problems, before, one.task, [results[n] for n in chosen], where)


def add_errors(
    problems: Problems, before: Problems, task: NumericTask, results: list[Result], out: Collector
) -> None:
    truth = problems.query_targets.double()
    said = {MODEL: torch.stack([unpacked(r["expected"]) for r in results]).double()}
    prompt, mean = scaled(problems, task)
    for name, one in references(scaled(before, task)[0]).items():
        said[name] = one.predict(prompt)[..., 0] + mean
    squares = {name: (values - truth).square().mean(-1) for name, values in said.items()}
    for name, values in squares.items():
        control = name != MODEL
        out.add("RMSE", name, rooted(values, out.seed), control)
        both = torch.stack([values, squares["mean"]], dim=1)
        ratio = estimate_of(both, lambda m: (m[:, 0] / m[:, 1]).sqrt(), out.seed)
        out.add("RMSE over the mean's", name, ratio, control)
    bad = torch.tensor([float(r["unparseable"]) for r in results]) / truth.shape[1]
    out.add("unparseable", MODEL, bad.double())
    out.add("mass", MODEL, torch.stack([unpacked(r["mass"]) for r in results]).double().mean(-1))


def rooted(squares: Float[Tensor, " batch"], seed: int) -> Estimate:
    return estimate_of(squares, torch.sqrt, seed)


def references(before: Prompt) -> dict[str, Predictor]:
    """What the model is compared with, on inputs as numbers."""
    return {
        "mean": MeanTarget(),
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
