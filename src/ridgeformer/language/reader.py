"""`Reader`: runs a language model over a forest of tokens, each node once, and reads what was asked for.

Nodes run in chunks of the forest's preorder. A chunk reads the keys and values of the path to its first
node from those before it; within the chunk, and in the path, a mask lets each node see its own path alone.
So no beginning is computed twice, no prompt is padded, and products of matrices have many rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.language.forest import Forest
from ridgeformer.transformer.threads import one_thread_each
from ridgeformer.types import Refusal, counted

if TYPE_CHECKING:
    from ridgeformer.language.model import LanguageModel

CHUNK = 192
"""Nodes in a chunk: enough rows for fast products, and few that a mask hides from each other."""


@dataclass(frozen=True)
class Wanted:
    """What is read on the way: nothing, unless it is named."""

    states: Int[Tensor, " n"] | None = None
    """Nodes whose states are read."""
    layers: Int[Tensor, " l"] | None = None
    """Layers whose states are read; all of them by default."""
    next_after: Int[Tensor, " m"] | None = None
    """Nodes after which tokens are predicted."""
    next_tokens: Int[Tensor, "m c"] | None = None
    """The tokens whose probabilities are read after each of these nodes."""
    attention_from: Int[Tensor, " a"] | None = None
    """Nodes whose attention is read."""
    attention_to: Int[Tensor, "a t"] | None = None
    """The nodes, on the path to each of these, that the attention goes to."""


@dataclass(frozen=True)
class Seen:
    """What was read; a part that was not asked for is empty.

    State 0 is the embedding, state l what block l has written, and the last one is normalised as the model does
    before it predicts.
    """

    states: Float[Tensor, "n l d"]
    log_probabilities: Float[Tensor, "m c"]
    best: Int[Tensor, " m"]
    """The most probable token after each of these nodes."""
    attention: Float[Tensor, "a layers heads t"]


class Reader:
    """Reads a forest, and what grows in it later.

    With `keep`, keys and values of all nodes are kept, and the forest may grow after it was read.
    Otherwise memory does not grow with the forest, which is read once. Sequences share their
    beginnings if the model can, unless `shared` says otherwise.
    """

    def __init__(
        self, model: LanguageModel, forest: Forest, keep: bool = False, shared: bool | None = None
    ) -> None:
        self.model, self.forest, self.keep = model, forest, keep
        self.shared = model.branches if shared is None else shared
        self.done = 0
        self.held: list[int] = []
        self.cache: list[tuple[Tensor, Tensor]] = []
        """Keys and values of the held nodes, for each layer."""

    @one_thread_each
    @torch.inference_mode()
    def read(self, wanted: Wanted) -> Seen:
        """Runs every node that has grown since the last time."""
        self.check_lengths()
        collected = Collected(self.model, wanted)
        eager = wanted.attention_from is not None
        with self.model.attention_that_is_seen(eager):
            if self.shared:
                order = self.forest.preorder(self.done)
                count = max(1, -(-len(order) // CHUNK))
                size = max(1, -(-len(order) // count))
                for start in range(0, len(order), size):
                    self.run_chunk(order[start : start + size], collected)
            else:
                for leaf in self.forest.leaves(self.done):
                    path = self.forest.path(leaf)
                    collected.take(self.run(path, None, path, collected), path, path)
        self.done = len(self.forest)
        return collected.seen()

    def check_lengths(self) -> None:
        longest = 1 + max(self.forest.depths[self.done :], default=0)
        if longest > self.model.context:
            raise Refusal(
                f"The prompt has {counted(longest, 'token')}, and the model reads at most "
                f"{self.model.context:,}: take fewer supports or shorter inputs."
            )

    def run_chunk(self, chunk: list[int], collected: Collected) -> None:
        if not self.keep:
            self.hold(self.forest.path(self.forest.parents[chunk[0]]))
        columns = self.held + chunk
        output = self.run(chunk, self.mask(chunk, columns), columns, collected)
        collected.take(output, chunk, columns)
        self.cache = [(layer.keys, layer.values) for layer in output.past_key_values.layers]
        self.held = columns

    def hold(self, nodes: list[int]) -> None:
        """Forgets all keys and values but those of these nodes."""
        where = {node: column for column, node in enumerate(self.held)}
        columns = torch.tensor([where[node] for node in nodes], dtype=torch.long)
        self.cache = [tuple(part[:, :, columns] for part in pair) for pair in self.cache]  # type: ignore[misc]
        self.held = nodes

    def mask(self, chunk: list[int], columns: list[int]) -> Float[Tensor, "1 1 c n"]:
        """What is added to scores: 0 where a column's node is on the path to the row's, −∞ elsewhere."""
        where = {node: column for column, node in enumerate(columns)}
        visible = torch.zeros(len(chunk), len(columns), dtype=torch.bool)
        first = len(self.held)
        for row, node in enumerate(chunk):
            parent = self.forest.parents[node]
            above = where.get(parent, -1) - first
            if (
                above >= 0
            ):  # A parent in the chunk comes earlier, and sees all of the path but the node.
                visible[row] = visible[above]
            else:
                visible[row, [where[step] for step in self.forest.path(parent)]] = True
            visible[row, first + row] = True
        return torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)[None, None]

    def run(
        self, nodes: list[int], mask: Tensor | None, columns: list[int], collected: Collected
    ) -> Any:
        """One call of the network."""
        from transformers import DynamicCache

        forest = self.forest
        positions = torch.tensor([[forest.depths[node] for node in nodes]])
        cached = {"past_key_values": DynamicCache(self.cache), "use_cache": True}
        return self.model.network(
            input_ids=torch.tensor([[forest.tokens[node] for node in nodes]]),
            attention_mask=mask,
            position_ids=positions if mask is not None else None,
            logits_to_keep=collected.rows_that_predict(nodes),
            output_hidden_states=collected.wanted.states is not None,
            output_attentions=collected.wanted.attention_from is not None,
            **(cached if mask is not None else {"use_cache": False}),
        )


class Collected:
    """What has been read so far; each node is asked for by the rows that want it."""

    def __init__(self, model: LanguageModel, wanted: Wanted) -> None:
        self.wanted = wanted
        self.layers = torch.arange(model.layers + 1) if wanted.layers is None else wanted.layers
        self.states_of = rows_by_node(wanted.states)
        self.next_of = rows_by_node(wanted.next_after)
        self.attention_of = rows_by_node(wanted.attention_from)
        tokens, to = wanted.next_tokens, wanted.attention_to
        self.states = torch.full((count(wanted.states), len(self.layers), model.width), torch.nan)
        choices = 0 if tokens is None else tokens.shape[1]
        self.log_probabilities = torch.full((count(wanted.next_after), choices), torch.nan)
        self.best = torch.full((count(wanted.next_after),), -1)
        targets = 0 if to is None else to.shape[1]
        shape = (count(wanted.attention_from), model.layers, model.heads, targets)
        self.attention = torch.full(shape, torch.nan)

    def rows_that_predict(self, nodes: list[int]) -> Tensor:
        return torch.tensor([i for i, node in enumerate(nodes) if node in self.next_of] or [-1])

    def take(self, output: Any, nodes: list[int], columns: list[int]) -> None:
        """Keeps what was asked for of one call of the network."""
        here = {node: row for row, node in enumerate(nodes)}
        where = {node: column for column, node in enumerate(columns)}
        asked = [(row, i) for node, row in here.items() for i in self.states_of.get(node, ())]
        if asked:
            rows, into = torch.tensor(asked).T
            for position, layer in enumerate(self.layers.tolist()):
                self.states[into, position] = output.hidden_states[layer][0, rows]
        predicting = [node for node in nodes if node in self.next_of]
        asked = [(row, i) for row, node in enumerate(predicting) for i in self.next_of[node]]
        if asked:
            rows, into = torch.tensor(asked).T
            logits = output.logits[0].float()
            if len(logits) == len(nodes):  # of a network that does not choose rows
                logits = logits[self.rows_that_predict(nodes)]
            self.best[into] = logits.argmax(-1)[rows]
            if self.wanted.next_tokens is not None:
                chosen = logits[rows[:, None], self.wanted.next_tokens[into]]
                self.log_probabilities[into] = chosen - logits.logsumexp(-1)[rows, None]
        for node in here.keys() & self.attention_of.keys():
            for i in self.attention_of[node]:
                assert self.wanted.attention_to is not None
                to = [where[other] for other in self.wanted.attention_to[i].tolist()]
                for layer, weights in enumerate(output.attentions):
                    self.attention[i, layer] = weights[0, :, here[node], to]

    def seen(self) -> Seen:
        parts = (self.states, self.log_probabilities, self.attention)
        if not all(part.isfinite().all() for part in parts):
            raise Refusal(
                "The language model computes NaN or infinite numbers on this prompt: its weights are damaged, "
                "or float32 cannot hold what it computes."
            )
        return Seen(self.states, self.log_probabilities, self.best, self.attention)


def count(nodes: Tensor | None) -> int:
    return 0 if nodes is None else len(nodes)


def rows_by_node(nodes: Tensor | None) -> dict[int, list[int]]:
    """For each node the rows in which it is asked for."""
    rows: dict[int, list[int]] = {}
    for row, node in enumerate([] if nodes is None else nodes.tolist()):
        rows.setdefault(node, []).append(row)
    return rows
