"""What a change of one support's answer does to the answers at all queries.

Variants of a prompt agree up to the answer that they change, and all queries follow each of them. As one
forest, k variants of k supports cost as much as half of them would alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ridgeformer.language.formats import NumberFormat
from ridgeformer.language.model import LanguageModel
from ridgeformer.language.numbers import expectations
from ridgeformer.language.prompts import TokenPrompt
from ridgeformer.language.scoring import scores
from ridgeformer.types import Refusal


def label_flips(
    model: LanguageModel, prompt: TokenPrompt, supports: Sequence[int] | None = None
) -> Float[Tensor, "variants q"]:
    """Log-odds of the second label at each query: of the prompt first, then with the label of each support flipped.

    All supports are flipped in turn, unless some are named.
    """
    if len(prompt.choices.texts) != 2:
        raise Refusal(f"Labels flip between two; this prompt has {len(prompt.choices.texts)}.")
    answers = torch.tensor(prompt.answers)
    flipped = torch.where(changes(prompt, supports), 1 - answers, answers)
    return log_odds(changed_answers(model, prompt, torch.cat([answers[None], flipped])))


def target_changes(
    model: LanguageModel,
    prompt: TokenPrompt,
    written: NumberFormat,
    targets: Float[Tensor, " k"],
    supports: Sequence[int] | None = None,
) -> Float[Tensor, "variants q"]:
    """Expected numbers at each query: of the prompt first, then with each support's target replaced by another.

    All supports are changed in turn, each to its entry of `targets`, unless some are named.
    """
    answers = torch.tensor(prompt.answers)
    changed = torch.where(changes(prompt, supports), written.index_of(targets), answers)
    return expectations(
        changed_answers(model, prompt, torch.cat([answers[None], changed])), written
    )


def changes(prompt: TokenPrompt, supports: Sequence[int] | None) -> Bool[Tensor, "variants k"]:
    """Which support each variant changes."""
    chosen = range(prompt.supports) if supports is None else supports
    return torch.eye(prompt.supports, dtype=torch.bool)[list(chosen)]


def changed_answers(
    model: LanguageModel, prompt: TokenPrompt, answers: Int[Tensor, "variants k"]
) -> Float[Tensor, "variants q choices"]:
    """The log-probability of each answer at each query, for variants of a prompt with these answers to its supports."""
    count = len(prompt.choices.texts)
    if answers.min() < 0 or answers.max() >= count:
        raise Refusal(f"Answers must be among the prompt's {count}, which are numbered from 0.")
    return scores(model, [prompt.with_answers(row) for row in answers.tolist()])


def log_odds(scores: Float[Tensor, "*shape 2"]) -> Float[Tensor, "*shape"]:
    """How much more probable the second label is than the first, on the scale of logarithms."""
    return scores[..., 1] - scores[..., 0]
