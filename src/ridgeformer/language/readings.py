"""`Readings`: all that is compared with predictors, read of a model on a batch of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.forest import Forest
from ridgeformer.language.model import LanguageModel
from ridgeformer.language.prompts import TokenPrompt
from ridgeformer.language.reader import Reader, Wanted
from ridgeformer.language.scoring import AnswerTree
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Readings:
    """States at the positions that predict, attention to answers, and the model's own answers.

    Layer 0 is the embedding, layer l what block l has written; the last is normalised as the model does before
    it predicts. A state of an isolated question knows nothing of the prompt.
    """

    layers: tuple[int, ...]
    support_states: Float[Tensor, "batch k l d"]
    query_states: Float[Tensor, "batch q l d"]
    isolated_support_states: Float[Tensor, "batch k l d"]
    isolated_query_states: Float[Tensor, "batch q l d"]
    attention: Float[Tensor, "batch q blocks heads k"]
    """From the query's last position to the tokens of each support's answer, of which it is the sum."""
    scores: Float[Tensor, "batch q choices"]
    """The log-probability of each answer."""


def read(
    model: LanguageModel,
    prompts: Sequence[TokenPrompt],
    layers: Sequence[int] | None = None,
    attention: bool = True,
) -> Readings:
    """Reads prompts with equally many supports and queries; without `attention`, zeros stand for it.

    States take most of the memory: name the layers that are needed if there are many prompts.
    """
    chosen = tuple(range(model.layers + 1)) if layers is None else tuple(layers)
    if not all(0 <= layer <= model.layers for layer in chosen):
        raise Refusal(f"The model has layers 0 to {model.layers}; got {list(chosen)}.")
    if len({(prompt.supports, len(prompt.queries)) for prompt in prompts}) != 1:
        raise Refusal("Prompts that are read together need equally many supports and queries.")
    parts = [in_context(model, prompt, chosen, attention) for prompt in prompts]
    support_states, query_states, weights, scores = map(torch.stack, zip(*parts, strict=True))
    isolated = isolated_states(model, prompts, chosen)
    k = prompts[0].supports
    return Readings(
        chosen, support_states, query_states, isolated[:, :k], isolated[:, k:], weights, scores
    )


def in_context(
    model: LanguageModel, prompt: TokenPrompt, layers: tuple[int, ...], attention: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States of supports and queries, attention and scores of one prompt."""
    tree, forest = AnswerTree.of(prompt.choices), Forest()
    context = forest.grow(prompt.context)
    paths = [forest.grow(query, context[-1]) for query in prompt.queries]
    ends, k = [path[-1] for path in paths], prompt.supports
    nodes = tree.planted(forest, ends)
    spans = prompt.answer_positions
    longest = max(map(len, spans))
    # Answers may have differing numbers of tokens: shorter ones are filled up, and the rest is not added.
    positions = torch.tensor([[*span, *[span[0]] * (longest - len(span))] for span in spans])
    real = torch.arange(longest) < torch.tensor([[len(span)] for span in spans])
    to = torch.tensor(context)[positions].flatten().expand(len(ends), -1)
    predict = tree.wanted(nodes)
    seen = Reader(model, forest).read(
        Wanted(
            states=torch.tensor([*(context[i] for i in prompt.predicting), *ends]),
            layers=torch.tensor(layers),
            next_after=predict.next_after,
            next_tokens=predict.next_tokens,
            attention_from=torch.tensor(ends) if attention else None,
            attention_to=to if attention else None,
        )
    )
    if attention:
        weights = (seen.attention.reshape(*seen.attention.shape[:-1], k, longest) * real).sum(-1)
    else:
        weights = torch.zeros(len(ends), model.layers, model.heads, k)
    return seen.states[:k], seen.states[k:], weights, tree.scores(seen.log_probabilities)


def isolated_states(
    model: LanguageModel, prompts: Sequence[TokenPrompt], layers: Sequence[int]
) -> Float[Tensor, "batch n l d"]:
    """The state at the end of each question alone, of supports and then queries; equal questions run once."""
    forest = Forest()
    ends = [[forest.grow(tokens)[-1] for tokens in prompt.isolated] for prompt in prompts]
    rows = {node: row for row, node in enumerate(sorted({end for row in ends for end in row}))}
    wanted = Wanted(states=torch.tensor(list(rows)), layers=torch.tensor(layers))
    states = Reader(model, forest).read(wanted).states
    return states[torch.tensor([[rows[end] for end in row] for row in ends])]
