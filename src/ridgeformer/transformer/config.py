"""The shape of a transformer, as saved in config.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

import torch

from ridgeformer.types import Refusal

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes and kinds of layers; docs/format.md says what each of them means."""

    d_in: int
    d_out: int
    d_model: int
    n_layers: int
    n_heads: int
    d_head: int
    d_mlp: int
    attention: Literal["linear", "softmax"] = "softmax"
    mlp: Literal["relu", "gelu", "reglu"] = "gelu"
    norm: Literal["none", "layernorm", "rmsnorm"] = "layernorm"
    mask: Literal["prefix", "causal"] = "prefix"
    positional: Literal["none", "learned"] = "none"
    attn_scale: float = 1.0
    dtype: Literal["float32", "float64"] = "float32"
    max_tokens: int = 0
    """The length of the learned positional table; it has no meaning if positional is none."""

    def __post_init__(self) -> None:
        hints = get_type_hints(TransformerConfig)
        for field in fields(self):
            value, choices = getattr(self, field.name), get_args(hints[field.name])
            if choices and value not in choices:
                raise Refusal(f"{field.name} must be one of {', '.join(choices)}; got {value!r}.")
            if hints[field.name] is int and (not isinstance(value, int) or value < 0):
                raise Refusal(f"{field.name} must be a whole number ≥ 0; got {value!r}.")
        if not isinstance(self.attn_scale, (int, float)):
            raise Refusal(f"attn_scale must be a number; got {self.attn_scale!r}.")
        if self.positional == "learned" and self.max_tokens < 1:
            raise Refusal("A learned positional table needs max_tokens ≥ 1.")

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> TransformerConfig:
        """The configuration in a config.json, which may have other entries."""
        known = {field.name for field in fields(TransformerConfig)}
        required = {"d_in", "d_out", "d_model", "n_layers", "n_heads", "d_head", "d_mlp"}
        missing = required - set(values)
        if missing:
            raise Refusal(f"The configuration lacks {', '.join(sorted(missing))}.")
        return TransformerConfig(**{name: values[name] for name in known & set(values)})
