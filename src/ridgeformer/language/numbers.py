"""Numbers as answers: how a tokenizer writes them, their distribution, and what the model would say.

The distribution is over all numbers of a format, and given that the answer is one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.forest import Forest
from ridgeformer.language.formats import NumberFormat
from ridgeformer.language.model import LanguageModel
from ridgeformer.language.prompts import TokenPrompt, number_choices
from ridgeformer.language.reader import Reader, Wanted
from ridgeformer.language.scoring import AnswerTree


@dataclass(frozen=True)
class Tokenization:
    """How a tokenizer writes the numbers of a format."""

    format: str
    tokens: int
    """Tokens of every number, without the space before it where that is a token of its own."""
    space: bool
    """Whether the space before a number is a token of its own."""
    digits_apart: bool
    """Whether no token holds two digits."""
    predictions: int
    """How many predictions give the distribution over all numbers."""


@dataclass(frozen=True)
class NumberAnswers:
    """What a model answers to each query of a prompt."""

    scores: Float[Tensor, "q numbers"]
    """The log-probability of every number of the format."""
    greedy: Float[Tensor, " q"]
    """The number that is said if the most probable token is taken each time; NaN if that is none of the format."""
    said: tuple[str, ...]
    """What is said then, up to the token at which it is no number of the format, or ends."""

    @property
    def unparseable(self) -> int:
        return int(self.greedy.isnan().sum())

    @property
    def mass(self) -> Float[Tensor, " q"]:
        """The probability that the answer is a number of the format at all."""
        return self.scores.exp().sum(-1)


def tokenization(model: LanguageModel, written: NumberFormat) -> Tokenization:
    """How the model's tokenizer writes a format; one that it does not write evenly is refused."""
    choices = number_choices(model, written)
    most_digits = max(
        sum(letter.isdigit() for letter in model.text([token]))
        for tokens in choices.tokens
        for token in tokens
    )
    return Tokenization(
        written.name,
        len(choices.tokens[0]),
        bool(choices.lead),
        most_digits == 1,
        len(AnswerTree.of(choices).inner),
    )


def number_answers(
    model: LanguageModel, prompt: TokenPrompt, written: NumberFormat
) -> NumberAnswers:
    """The distribution over all numbers at each query, and the greedy answer.

    One pass gives both but for what follows a whole number, which takes one token for each query more: a
    number that goes on, as 587 does where 58 is expected, is no number of the format.
    """
    tree, forest = AnswerTree.of(prompt.choices), Forest()
    ends = [forest.grow(sequence)[-1] for sequence in prompt.sequences]
    reader = Reader(model, forest, keep=True)
    nodes = tree.planted(forest, ends)
    seen = reader.read(tree.wanted(nodes))
    best = dict(zip(nodes.flatten().tolist(), seen.best.tolist(), strict=True))
    said = [followed(forest, end, best) for end in ends]
    answers = {tokens: index for index, tokens in enumerate(prompt.choices.tokens)}
    whole = [query for query, tokens in enumerate(said) if tuple(tokens) in answers]
    greedy = torch.full((len(ends),), torch.nan, dtype=torch.float64)
    if whole:
        leaves = [forest.grow(said[query], ends[query])[-1] for query in whole]
        after = reader.read(Wanted(next_after=torch.tensor(leaves))).best.tolist()
        for query, token in zip(whole, after, strict=True):
            if model.ends_line(token):
                greedy[query] = written.values[answers[tuple(said[query])]]
            else:
                said[query].append(token)
    return NumberAnswers(
        tree.scores(seen.log_probabilities), greedy, tuple(model.text(tokens) for tokens in said)
    )


def followed(forest: Forest, node: int, best: dict[int, int]) -> list[int]:
    """The most probable tokens one after the other, until one leaves the beginnings of answers."""
    said: list[int] = []
    while node in best:
        said.append(best[node])
        node = forest.children[node].get(best[node], -1)
    return said


def expectations(
    scores: Float[Tensor, "*shape numbers"], written: NumberFormat
) -> Float[Tensor, "*shape"]:
    """The mean of the distribution over all numbers."""
    return scores.double().softmax(-1) @ written.values


def quantiles(
    scores: Float[Tensor, "*shape numbers"], written: NumberFormat, levels: Float[Tensor, " n"]
) -> Float[Tensor, "*shape n"]:
    """The smallest numbers at which the distribution function reaches each level."""
    below = scores.double().softmax(-1).cumsum(-1)
    index = torch.searchsorted(below, levels.double().expand(*below.shape[:-1], -1).contiguous())
    return written.values[index.clamp(max=written.count - 1)]
