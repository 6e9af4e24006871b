"""Transformers that were never trained: the control that tells what a shape can do by itself."""

from __future__ import annotations

from dataclasses import replace

import torch

from ridgeformer.transformer import Transformer


def untrained(
    transformer: Transformer, seed: int, *, attn_scale: float | None = None
) -> Transformer:
    """A transformer of the same shape with random weights, and its own scale of attention if one is given."""
    config = transformer.config
    if attn_scale is not None:
        config = replace(config, attn_scale=attn_scale)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(config).requires_grad_(False).to(transformer.device)


def untrained_for(transformer: Transformer, supports: int, seed: int) -> Transformer:
    """The same for prompts of so many supports: linear attention averages over them, to stay finite."""
    linear = transformer.config.attention == "linear"
    return untrained(transformer, seed, attn_scale=1 / (supports + 1) if linear else None)
