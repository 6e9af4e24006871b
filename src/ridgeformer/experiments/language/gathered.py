"""What was kept of all prompts of a task, as observations: trained features, and untrained ones as a control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.analysis.in_context import Copies, Observations
from ridgeformer.experiments.jobs import Result
from ridgeformer.experiments.language.asked import joined, loaded, untrained
from ridgeformer.experiments.language.words import LABELS, WordPrompt, stacked
from ridgeformer.language import LanguageModel, Problems, isolated_states, prompts

WEIGHTS = 0
"""The seed of untrained weights."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The prompts of one seed."""

    trained: Observations
    untrained: Observations
    """The same answers beside features of the same words by untrained weights."""
    copies: Copies
    in_context: Float[Tensor, "layers batch k q"]
    """Similarities of states in context, which may hold the answer."""
    together: Float[Tensor, "batch n q"]
    """What several flips at once do, for each of the numbers in `TOGETHER`."""
    flipped: Bool[Tensor, "batch n k"]
    """Which labels those are."""
    words: Float[Tensor, "layers words p"]
    """Trained features of every word, once."""


def gathered(tasks: Sequence[WordPrompt], results: list[Result]) -> Seen:
    """The observations of prompts of one task and one seed.

    A feature of a word depends on the word alone, so that features are computed here and not kept.
    """
    first = tasks[0]
    parts = stacked(results)
    problems = joined([task.problem() for task in tasks])

    def observed(model: LanguageModel) -> Observations:
        built = prompts(model, first.task, problems, LABELS)
        states = isolated_states(model, built, range(model.layers + 1)).permute(2, 0, 1, 3)
        k = problems.supports
        return Observations(
            states[:, :, :k],
            states[:, :, k:],
            2.0 * problems.targets - 1.0,
            parts["outputs"],
            parts["influence"],
            first.seed,
            truth=2.0 * problems.query_targets - 1.0,
        )

    trained = observed(loaded(first.directory))
    attention = parts["attention"].transpose(0, 1)
    # A head that does not see the labels at all from some query is no smoother.
    attention = attention + 1e-12 * (attention.sum(2, keepdim=True) <= 0)
    return Seen(
        replace(trained, attention=attention),
        observed(untrained(first.directory, WEIGHTS)),
        Copies(parts["slots"].long(), parts["once"], parts["repeated"]),
        parts["in context"].transpose(0, 1),
        parts["together"],
        parts["flipped together"].bool(),
        each_once(trained, problems),
    )


def each_once(seen: Observations, problems: Problems) -> Float[Tensor, "layers words p"]:
    """The features of every word of the problems, in the order in which they come first."""
    rows = zip(problems.inputs, problems.queries, strict=True)
    texts = [text for inputs, queries in rows for text in (*inputs, *queries)]
    first = [texts.index(text) for text in dict.fromkeys(texts)]
    return torch.cat([seen.supports, seen.queries], dim=2).flatten(1, 2)[:, first]
