"""The shape of a transformer, as saved in config.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from ridgeformer.types import Refusal

LARGEST_SIZE = 2**31
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
    mlp: Literal["relu", "gelu", "gelu_new", "reglu"] = "gelu"
    norm: Literal["none", "layernorm", "rmsnorm"] = "layernorm"
    mask: Literal["prefix", "causal", "context"] = "prefix"
    """Which tokens a token reads; queries read themselves too, except under `context`."""
    positional: Literal["none", "learned", "sinusoidal"] = "none"
    attn_scale: float = 1.0
    dtype: Literal["float32", "float64"] = "float32"
    max_tokens: int = 0
    """The length of the learned positional table; other kinds of positions have no table."""
    n_registers: int = 0
    """The number of constant tokens that come before the first token of every prompt."""
    loop: tuple[int, int] | None = None
    """Blocks first … stop − 1 are applied as often as a caller says; None repeats no block."""

    def __post_init__(self) -> None:
        hints = get_type_hints(TransformerConfig)
        for field in fields(self):
            value, hint = getattr(self, field.name), hints[field.name]
            choices = get_args(hint) if get_origin(hint) is Literal else ()
            if choices and value not in choices:
                raise Refusal(f"{field.name} must be one of {', '.join(choices)}; got {value!r}.")
            if hint is int and not (type(value) is int and 0 <= value < LARGEST_SIZE):
                raise Refusal(
                    f"{field.name} must be a whole number ≥ 0 and below 2^31; got {value!r}."
                )
        if type(self.attn_scale) not in (int, float) or not isfinite(self.attn_scale):
            raise Refusal(f"attn_scale must be a finite number; got {self.attn_scale!r}.")
        if self.positional == "learned" and self.max_tokens < 1:
            raise Refusal("A learned positional table needs max_tokens ≥ 1.")
        if self.loop is not None and not 0 <= self.loop[0] < self.loop[1] <= self.n_layers:
            raise Refusal(
                "loop must be [first, stop] with 0 ≤ first < stop ≤ n_layers; "
                f"got {list(self.loop)} and {self.n_layers} layers."
            )

    def applied(self, loops: int = 1) -> list[int]:
        """The blocks in the order in which a forward pass applies them, if it loops so often."""
        if self.loop is None:
            if loops != 1:
                raise Refusal(f"The model has no loop, so it cannot be run with loops = {loops}.")
            return list(range(self.n_layers))
        if loops < 0:
            raise Refusal(f"loops must be a whole number ≥ 0; got {loops}.")
        first, stop = self.loop
        repeated = [*range(first, stop)] * loops
        return [*range(first), *repeated, *range(stop, self.n_layers)]

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
        options = {name: values[name] for name in known & set(values)}
        match options.get("loop"):
            case None:
                pass
            case [first, stop] if type(first) is int and type(stop) is int:
                options["loop"] = first, stop
            case other:
                raise Refusal(f"loop must be [first, stop], two layers; got {other!r}.")
        return TransformerConfig(**options)
