"""The mat-vec heads of a compiled model, as its sites name them."""

from __future__ import annotations

from typing import Any

from ridgeformer.analysis.heads import named_heads
from ridgeformer.compiler import CompiledModel


def matvec_heads(model: CompiledModel) -> list[tuple[int, int, dict[str, Any]]]:
    """Layer, head and description of every head that multiplies by the kernel matrix."""
    return [at for at in named_heads(model) if "matvec" in at[2]["roles"]]


def matvec_widths(model: CompiledModel) -> list[int]:
    """How many outputs each mat-vec head writes."""
    return [len(what["writes"]) for _, _, what in matvec_heads(model)]
