"""The mask: which states may depend on a token, and whether any other bit does."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.transformer import Edit, Record, Transformer, TransformerConfig
from ridgeformer.types import Refusal


def may_depend(
    config: TransformerConfig, changed: Bool[Tensor, " n"], context: int
) -> Bool[Tensor, " rows"]:
    """Which rows of the stream, registers first, the mask lets depend on the tokens that have changed.

    A query reaches itself alone. A token of the context reaches every query and, in the context,
    every row under the prefix mask and the rows from its own on under the causal mask.
    """
    rows = torch.arange(config.n_registers + len(changed))
    first_query = config.n_registers + context
    reached = torch.cat([torch.zeros(config.n_registers, dtype=torch.bool), changed])
    inside = changed[:context].nonzero()
    if len(inside):
        first = config.n_registers + int(inside[0]) if config.mask == "causal" else 0
        reached = reached | (rows >= min(first, first_query))
    return reached


def state_leak(
    transformer: Transformer,
    tokens: Float[Tensor, "batch n d_in"],
    other: Float[Tensor, "batch n d_in"],
    context: int,
    edits: tuple[Edit, ...] = (),
) -> tuple[Bool[Tensor, "sites batch kept d"], Bool[Tensor, "sites batch reached d"]]:
    """For any weights, no bit of a state depends on a token that the mask keeps from it.

    The two sequences differ in some of their tokens. The result says which entries of the residual
    stream differ after the embedding, after every sublayer and, as the last site, after a pass of
    which nothing is recorded: in the rows that no changed token reaches, where the theorem says that
    none do, and in the others, as a control.
    """
    if tokens.shape != other.shape:
        raise Refusal(
            "Two sequences are compared token by token: they need the same shape, got "
            f"{list(tokens.shape)} and {list(other.shape)}."
        )
    names = ["embed"]
    for layer in range(transformer.config.n_layers):
        names += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    streams = []
    for given in (tokens, other):
        record = Record.of(names)
        with torch.inference_mode():
            transformer.residual_stream(given, context, [*edits, record])
            last = transformer.residual_stream(given, context, edits)
        streams.append(torch.stack([*(record.values[name] for name in names), last]))
    apart = streams[0] != streams[1]
    reached = may_depend(transformer.config, (tokens != other).any(-1).any(0), context)
    return apart[:, :, ~reached], apart[:, :, reached]
