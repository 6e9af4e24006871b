"""How numbers are written, and what that does to a model's answers: the same task in every format.

Formats with as many numbers ask the same problems, each number written in another way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.jobs import Result
from ridgeformer.experiments.language.asked import drawn, joined, loaded, unpacked
from ridgeformer.experiments.language.numbers import (
    MEAN,
    MODEL,
    NumberPrompt,
    expected,
    said_on_inputs,
)
from ridgeformer.language import FORMATS, prompts, tokenization
from ridgeformer.language.tasks import NumericTask
from ridgeformer.statistics import estimate_of
from ridgeformer.types import Refusal

TASK, SUPPORTS, PROMPTS = "linear", 32, 12
"""Two decimals take about ten times as many predictions as integers do, so that prompts are fewer here."""
NEIGHBOUR = "1-NN"

MEASURES = {
    "RMSE over the mean's, by format": "error of the expected number over that of the mean of the supports' targets",
    "unparseable, by format": "share of greedy answers that are no number of the format",
    "mass, by format": "probability that the answer is a number of the format",
}


def format_prompts_of(
    directory: str, model: str, task: NumericTask, prompts: int, seed: int
) -> dict[str, list[NumberPrompt]]:
    """The prompts in each format that the model's tokenizer writes evenly."""
    return {
        name: [
            NumberPrompt(directory, model, replace(task, supports=SUPPORTS, format=name), seed, n)
            for n in range(min(prompts, PROMPTS))
        ]
        for name, why in unwritten(directory).items()
        if not why
    }


def unwritten(directory: str) -> dict[str, str]:
    """Why the tokenizer does not write a format evenly, if it does not, by format."""
    found = {}
    for name, written in FORMATS.items():
        try:
            tokenization(loaded(directory), written)
            found[name] = ""
        except Refusal as refusal:
            found[name] = str(refusal)
    return found


def score(
    tasks: dict[str, list[NumberPrompt]], results: dict[str, list[Result]], out: Collector
) -> dict[str, Any]:
    """Adds the errors in each format, and returns how each is written."""
    settings = {}
    for name, own in tasks.items():
        task, directory = own[0].task, own[0].directory
        problems = joined([one.problem() for one in own])
        before = joined([drawn(task, one.seed - 1, one.number) for one in own])
        said = {MODEL: expected(results[name]), **said_on_inputs(task, problems, before)}
        truth, where = problems.query_targets.double(), out.within(task=task.name, format=name)
        squares = {who: (values - truth).square().mean(-1) for who, values in said.items()}
        for who in (MODEL, NEIGHBOUR):
            both = torch.stack([squares[who], squares[MEAN]], dim=1)
            ratio = estimate_of(both, lambda m: (m[:, 0] / m[:, 1]).sqrt(), out.seed)
            where.add("RMSE over the mean's, by format", who, ratio, who != MODEL)
        mass = torch.stack([unpacked(r["mass"]) for r in results[name]]).double()
        bad = torch.tensor([float(r["unparseable"]) for r in results[name]]) / mass.shape[1]
        where.add("unparseable, by format", MODEL, bad.double())
        where.add("mass, by format", MODEL, mass.mean(-1))
        facts = tokenization(loaded(directory), task.number_format())
        (prompt,) = prompts(loaded(directory), task, problems[:1])
        settings[name] = {
            "numbers": task.number_format().summary, "tokens": facts.tokens, "space": facts.space,
            "digits apart": facts.digits_apart, "tokens of a prompt": len(prompt.sequences[0]),
        }  # fmt: skip
    return settings
