"""The probability of every answer that a prompt allows, exactly: each token of each, after those before it.

The answers share their beginnings in a forest. After 9 first digits stand 10 second ones each, so that all
two-digit numbers take 10 predictions, one after the query and one after each first digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.forest import ROOT, Forest, Tokens
from ridgeformer.language.model import LanguageModel
from ridgeformer.language.prompts import Choices, TokenPrompt
from ridgeformer.language.reader import Reader, Wanted


@dataclass(frozen=True)
class AnswerTree:
    """The answers as a forest of their own, which is planted after every query."""

    inner: tuple[Tokens, ...]
    """The beginnings of answers after which a token is predicted; the first is empty."""
    tokens: Tensor
    """The tokens that may follow each beginning, filled up with the first of them."""
    beginning: Tensor
    """For each answer and each of its tokens the beginning that it follows."""
    column: Tensor
    """For each answer and each of its tokens which one of those that may follow it is."""
    used: Tensor
    """Which of these tokens there are: answers need not be equally long."""

    @staticmethod
    def of(choices: Choices) -> AnswerTree:
        forest = Forest()
        paths = [forest.grow(answer) for answer in choices.tokens]
        inner = [ROOT, *(node for node in range(len(forest)) if forest.children[node])]
        index = {node: i for i, node in enumerate(inner)}
        following = [list(forest.children[node]) for node in inner]
        width, longest = max(map(len, following)), max(map(len, paths))
        beginning = torch.zeros(len(paths), longest, dtype=torch.long)
        column, used = beginning.clone(), torch.zeros_like(beginning, dtype=torch.bool)
        for answer, path in enumerate(paths):
            for step, node in enumerate(path):
                parent = index[forest.parents[node]]
                beginning[answer, step], used[answer, step] = parent, True
                column[answer, step] = following[parent].index(forest.tokens[node])
        filled = [row + row[:1] * (width - len(row)) for row in following]
        return AnswerTree(
            tuple(tuple(forest.text(node)) for node in inner),
            torch.tensor(filled), beginning, column, used,
        )  # fmt: skip

    def planted(self, forest: Forest, after: Sequence[int]) -> Tensor:
        """The nodes after which tokens are predicted, for each of the nodes that answers follow."""
        rows = [
            [node, *(forest.grow(begun, node)[-1] for begun in self.inner[1:])] for node in after
        ]
        return torch.tensor(rows, dtype=torch.long).reshape(len(after), len(self.inner))

    def wanted(self, nodes: Tensor) -> Wanted:
        """What is read to know the answers after each row of nodes."""
        return Wanted(next_after=nodes.flatten(), next_tokens=self.tokens.repeat(len(nodes), 1))

    def scores(self, log_probabilities: Tensor) -> Float[Tensor, "n choices"]:
        """The log-probability of each answer, from those of its tokens."""
        steps = log_probabilities.reshape(-1, *self.tokens.shape)
        return (steps[:, self.beginning, self.column] * self.used).sum(-1)


def scores(
    model: LanguageModel, prompts: Sequence[TokenPrompt], shared: bool | None = None
) -> Float[Tensor, "batch q choices"]:
    """The log-probability of each answer after each query of each prompt.

    It is that of the answer's tokens after the prompt, whatever follows them; over all answers, and any
    other continuation, probabilities add up to 1.
    """
    tree, forest = AnswerTree.of(prompts[0].choices), Forest()
    ends = [forest.grow(sequence)[-1] for prompt in prompts for sequence in prompt.sequences]
    seen = Reader(model, forest, shared=shared).read(tree.wanted(tree.planted(forest, ends)))
    return tree.scores(seen.log_probabilities).reshape(len(prompts), -1, len(tree.beginning))
