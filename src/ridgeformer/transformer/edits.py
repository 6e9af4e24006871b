"""Interventions on a forward pass, which are values passed to `forward` and not modes of the model.

The sites of block l, whose values have shape [batch, n, …], registers first, are:

    embed                    the residual stream before the first block       d_model
    blocks.l.attn.z          each head's output before W_O                    n_heads, d_head
    blocks.l.attn_out        what attention adds                              d_model
    blocks.l.resid_mid       the residual stream after attention              d_model
    blocks.l.mlp_out         what the MLP adds                                d_model
    blocks.l.resid_post      the residual stream after the block              d_model

A model with a loop counts its blocks in the order in which they are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ridgeformer.types import Refusal

SITES = ("attn.z", "attn_out", "resid_mid", "mlp_out", "resid_post")


@dataclass(frozen=True)
class Edit:
    """Replaces the value at one site by a function of it."""

    site: str
    apply: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Record:
    """Keeps the values that the last forward pass had at the named sites, in `values`."""

    sites: frozenset[str]
    values: dict[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def of(sites: Iterable[str]) -> Record:
        return Record(frozenset(sites))


Edits = Sequence[Edit | Record]


def ablate_head(layer: int, head: int) -> Edit:
    """Silences one attention head."""

    def silence(z: Tensor) -> Tensor:
        keep = z.new_ones(z.shape[-2], 1)
        keep[head] = 0
        return z * keep

    return Edit(f"blocks.{layer}.attn.z", silence)


def ablate(site: str, channels: Sequence[int] | None = None) -> Edit:
    """Zeroes a site, or only some of its channels."""

    def zero(x: Tensor) -> Tensor:
        if channels is None:
            return torch.zeros_like(x)
        x = x.clone()
        x[..., list(channels)] = 0
        return x

    return Edit(site, zero)


def patch(site: str, value: Tensor) -> Edit:
    """Puts a given value in place of what the model computed."""
    return Edit(site, value.expand_as)


def check_sites(edits: Edits, n_layers: int) -> None:
    """Refuses a site that the model does not have, instead of silently doing nothing."""
    known = {"embed"} | {f"blocks.{layer}.{name}" for layer in range(n_layers) for name in SITES}
    asked = {site for e in edits for site in ([e.site] if isinstance(e, Edit) else e.sites)}
    if unknown := sorted(asked - known):
        raise Refusal(
            f"The model has no site {unknown[0]!r}: sites are 'embed' and 'blocks.<layer>.<name>' "
            f"with layer below {n_layers} and name one of {', '.join(SITES)}."
        )


def apply_edits(edits: Edits, site: str, x: Tensor) -> Tensor:
    """The value at a site after the edits, in their order."""
    for edit in edits:
        if isinstance(edit, Edit):
            x = edit.apply(x) if edit.site == site else x
        elif site in edit.sites:
            edit.values[site] = x
    return x
