"""The mask: queries change nothing but their own states."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Record, Transformer


def context_leak(
    transformer: Transformer, prompt: Prompt, other: Prompt
) -> tuple[Bool[Tensor, "sites batch context d"], Bool[Tensor, "sites batch q d"]]:
    """For any weights, no bit of the context's states depends on the queries, at any sublayer.

    The two prompts differ in their queries alone. The result says which entries of the residual
    stream differ: at the context, where the theorem says that none do, and at the queries, as a
    control.
    """
    names = ["embed"]
    for layer in range(transformer.config.n_layers):
        names += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    context = prompt.supports + 1
    first_query = transformer.config.n_registers + context
    streams = []
    for given in (prompt, other):
        record = Record.of(names)
        with torch.inference_mode():
            transformer.residual_stream(given.tokens(), context, [record])
        streams.append(torch.stack([record.values[name] for name in names]))
    apart = streams[0] != streams[1]
    return apart[:, :, :first_query], apart[:, :, first_query:]
