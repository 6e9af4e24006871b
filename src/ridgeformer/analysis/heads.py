"""Which tokens read from which, and which outputs a head serves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.models import trajectory
from ridgeformer.models.compiled import recorded
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import ablate_head
from ridgeformer.transformer.attention import Attention


@dataclass(frozen=True)
class HeadEffect:
    """What one head of a compiled model moves when it is silenced."""

    layer: int
    head: int
    does: str
    source: str
    """The tokens that it reads from: data (supports and queries) or aggregator."""
    to: str
    moved: tuple[float, ...]
    """For each output, the change of the last prediction when the head is silenced, relative to the
    largest entry of the prediction."""

    def serves(self, threshold: float = 1e-6) -> tuple[int, ...]:
        """The outputs whose predictions move."""
        return tuple(o for o, moved in enumerate(self.moved) if moved > threshold)


def head_effects(model: CompiledModel, prompt: Prompt) -> tuple[HeadEffect, ...]:
    """The effect of silencing each head on its own."""
    intact = trajectory(model, prompt).final
    size = intact.abs().amax((0, 1))
    effects = []
    for head in model.heads():
        cut = trajectory(model, prompt, edits=[ablate_head(head.layer, head.head)]).final
        moved = tuple(((cut - intact).abs().amax((0, 1)) / size).tolist())
        effects.append(HeadEffect(head.layer, head.head, head.does, head.source, head.to, moved))
    return tuple(effects)


@dataclass(frozen=True)
class Sharing:
    """The heads of one connection, counted by the number of outputs that they serve."""

    connection: str
    heads: int
    by_outputs_served: tuple[int, ...]
    """Entry n is the number of heads that move the predictions of exactly n outputs."""


def sharing(effects: tuple[HeadEffect, ...]) -> tuple[Sharing, ...]:
    """Counts shared and dedicated heads, connection by connection."""
    rows = []
    for connection in sorted({f"{e.source} → {e.to}" for e in effects}):
        among = [e for e in effects if f"{e.source} → {e.to}" == connection]
        served = [len(e.serves()) for e in among]
        outputs = len(among[0].moved)
        counts = tuple(served.count(n) for n in range(outputs + 1))
        rows.append(Sharing(connection, len(among), counts))
    return tuple(rows)


@dataclass(frozen=True)
class Message:
    """A row of the communication table: in this layer `to` reads from `source`."""

    layer: int
    source: str
    to: str
    heads: int
    does: tuple[str, ...]
    outside: float
    """The largest entry that they write at tokens other than `to`; 0 if the label is right."""
    overheard: float | None
    """The largest entry that they write because of tokens other than `source`; 0 if the label is
    right. It is None for softmax, where every token contributes to the normaliser."""


def communication(model: CompiledModel, prompt: Prompt) -> tuple[Message, ...]:
    """For each layer, which tokens read from which by the labels, and what the heads really do."""
    (tokens, context), blocks = model.sequence(prompt), model.transformer.blocks
    before = ["embed", *(f"blocks.{layer}.resid_post" for layer in range(len(blocks) - 1))]
    after = [f"blocks.{layer}.attn.z" for layer in range(len(blocks))]
    values = recorded(model.transformer, (tokens, context), [*before, *after])
    aggregator = tokens[0, :, -2] == 1  # the flag
    nowhere, linear = torch.zeros_like(aggregator), model.certificate.attention == "linear"
    elsewhere = {"data": aggregator, "aggregator": ~aggregator, "everywhere": nowhere}
    rows: dict[tuple[int, str, str], list[tuple[str, float, float]]] = {}
    for what in model.heads():
        layer, head = what.layer, what.head
        attention = blocks[layer].attn
        assert isinstance(attention, Attention)
        into = attention.W_O[head].detach()
        stray = values[after[layer]][:, elsewhere[what.to], head] @ into
        heard = 0.0
        if linear:
            x = values[before[layer]]
            heard = largest(said_by(attention, head, x, elsewhere[what.source], context) @ into)
        heads = rows.setdefault((layer, what.source, what.to), [])
        heads.append((what.does, largest(stray), heard))
    messages = []
    for at, heads in rows.items():
        does, outside, heard_of = zip(*heads, strict=True)
        overheard = max(heard_of) if linear else None
        said = tuple(dict.fromkeys(does))
        messages.append(Message(*at, len(heads), said, max(outside), overheard))
    return tuple(messages)


def said_by(attention: Attention, head: int, x: Tensor, who: Tensor, context: int) -> Tensor:
    """What a linear head writes if it reads only the tokens in `who`, [batch, n, d_head]."""
    with torch.inference_mode():
        q, k, v = (found[:, head] for found in attention.project(x, "QKV"))
        k = attention.config.attn_scale * k * who[:, None]
        z = q @ (k[:, :context].mT @ v[:, :context])
        own = (q * k).sum(-1, keepdim=True) * v  # a query reads itself as well
        z[:, context:] += own[:, context:]
        return z


def largest(x: Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0
