"""The tensors of a transformer, counted without holding them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ridgeformer.transformer.config import TransformerConfig
from ridgeformer.transformer.model import Transformer
from ridgeformer.types import Refusal

Shapes = dict[str, list[int]]


def shapes(config: TransformerConfig) -> tuple[Shapes, Shapes]:
    """Those that a transformer has once, and those that each of its blocks has, by name."""
    try:
        with torch.device("meta"):
            small = Transformer(replace(config, n_layers=1, loop=None), init="zero")
    except RuntimeError as error:  # the number of entries overflows
        raise Refusal("a tensor would have more entries than any machine can hold.") from error
    sizes = {name: list(tensor.shape) for name, tensor in small.state_dict().items()}
    first = "blocks.0."
    each = {name.removeprefix(first): n for name, n in sizes.items() if name.startswith(first)}
    return {name: n for name, n in sizes.items() if not name.startswith(first)}, each


def weight_count(config: TransformerConfig) -> int:
    """The number of its weights."""
    once, each = shapes(config)
    return sum(map(prod, once.values())) + config.n_layers * sum(map(prod, each.values()))
