"""One softmax head, written into the weights of the generic transformer by hand."""

from __future__ import annotations

from typing import Any

import torch

from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer, TransformerConfig

SHUT_OUT = 60.0
"""Logits by which a support beats any other token: e⁻⁶⁰ is far below round-off."""


def one_softmax_head(prompt: Prompt, temperature: float) -> Transformer:
    """A transformer of one layer and one head that attends to supports with ⟨φ, φ_j⟩/τ and reads y.

    A query also sees the aggregator and itself. Supports get a head start over both, one number
    added to each of their logits, which the normalisation cancels.
    """
    p, r = prompt.features, prompt.outputs
    width = p + r + 3  # the tokens as they are: [φ | y | is_support | is_aggregator | is_query]
    model = Transformer(
        TransformerConfig(
            d_in=width, d_out=r, d_model=width, n_layers=1, n_heads=1, d_head=max(p + 1, r), d_mlp=1,
            attention="softmax", mlp="relu", norm="none", attn_scale=1 / temperature,
            dtype="float64",
        ),
        init="zero",
    )  # fmt: skip
    longest = max(float(phi.square().sum(-1).max()) for phi in (prompt.phi, prompt.phi_query))
    features, targets = range(p), range(p, p + r)
    with torch.no_grad():
        attention: Any = model.blocks[0].attn
        model.embed.W.copy_(torch.eye(width))
        attention.W_Q[0, features, features] = 1.0
        attention.b_Q[0, p] = 1.0
        attention.W_K[0, features, features] = 1.0
        attention.W_K[0, p + r, p] = SHUT_OUT * temperature + 2 * longest
        attention.W_V[0, targets, range(r)] = 1.0
        attention.W_O[0, range(r), targets] = 1.0
        model.unembed.W[targets, range(r)] = 1.0
    return model
