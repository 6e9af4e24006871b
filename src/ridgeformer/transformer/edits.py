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

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from ridgeformer.types import Refusal, counted

SITES = ("attn.z", "attn_out", "resid_mid", "mlp_out", "resid_post")


@dataclass(frozen=True)
class Edit:
    """Replaces the value at one site by a function of it."""

    site: str
    apply: Callable[[Tensor], Tensor]
    head: int | None = None
    """The head that is silenced, if it is just one, for a model to say that it has none such."""


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
    """Silences one attention head, counted from 0.

    A head that the layer does not have is refused. One whose weights are zero, as the spare heads of a
    compiled model are, is silent already: a warning says so, and nothing changes.
    """

    def silence(z: Tensor) -> Tensor:
        keep = z.new_ones(z.shape[-2], 1)
        keep[head] = 0
        return z * keep

    return Edit(f"blocks.{layer}.attn.z", silence, head)


def ablate(site: str, channels: Sequence[int] | None = None) -> Edit:
    """Zeroes a site, or only some of its channels; one that the site does not have is refused."""

    def zero(x: Tensor) -> Tensor:
        if channels is None:
            return torch.zeros_like(x)
        check_channels(channels, x.shape[-1], "channel", site)
        x = x.clone()
        x[..., list(channels)] = 0
        return x

    return Edit(site, zero)


def patch(site: str, value: Tensor) -> Edit:
    """Puts a given value in place of what the model computed; a shape that does not fit is refused."""

    def put(x: Tensor) -> Tensor:
        try:
            return value.expand_as(x)
        except RuntimeError as error:
            raise Refusal(
                f"{site} holds a value of shape {list(x.shape)}, and one of shape {list(value.shape)} cannot "
                "take its place."
            ) from error

    return Edit(site, put)


def check_channels(asked: Sequence[int], number: int, what: str, where: str) -> None:
    """Refuses a head or channel that is not there."""
    for one in asked:
        if not (isinstance(one, Integral) and 0 <= one < number):
            raise Refusal(
                f"{where} has no {what} {one!r}: it has {counted(number, what)}, counted from 0."
            )


def check_edits(edits: Edits) -> None:
    """Refuses what is no list of edits."""
    if not isinstance(edits, Sequence) or not all(isinstance(e, (Edit, Record)) for e in edits):
        raise Refusal(
            "Edits are given as a list of `ablate_head(…)`, `ablate(…)`, `patch(…)`, `Edit(…)` or `Record(…)`."
        )


def check_sites(edits: Edits, n_layers: int) -> None:
    """Refuses a site that the model does not have, instead of silently doing nothing."""
    check_edits(edits)
    known = {"embed"} | {f"blocks.{layer}.{name}" for layer in range(n_layers) for name in SITES}
    asked = {site for e in edits for site in ([e.site] if isinstance(e, Edit) else e.sites)}
    if unknown := sorted(asked - known):
        raise Refusal(
            f"The model has no site {unknown[0]!r}: sites are 'embed' and 'blocks.<layer>.<name>' "
            f"with layer below {n_layers} and name one of {', '.join(SITES)}."
        )


def check_heads(edits: Edits, layers: Sequence[Any]) -> None:
    """Refuses to silence a head that its layer does not have, and warns of one that is silent already."""
    for edit in edits:
        if not isinstance(edit, Edit) or edit.head is None:
            continue
        number = int(edit.site.split(".")[1])
        attention = layers[number]
        check_channels([edit.head], attention.config.n_heads, "head", f"Layer {number}")
        if not attention.writes(edit.head):
            warnings.warn(
                f"Head {edit.head} of layer {number} has weights of zero, and to silence it changes nothing: "
                "`model.heads()` lists the heads that a compiled model uses.",
                stacklevel=4,
            )


def apply_edits(edits: Edits, site: str, x: Tensor) -> Tensor:
    """The value at a site after the edits, in their order."""
    for edit in edits:
        if isinstance(edit, Edit):
            x = edit.apply(x) if edit.site == site else x
        elif site in edit.sites:
            edit.values[site] = x
    return x
