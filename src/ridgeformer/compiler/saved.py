"""What config.json says of a compiled model is checked when it is read: it may have been written by hand."""

from __future__ import annotations

import types
from collections.abc import Callable
from math import isnan
from typing import Any, Union, get_args, get_origin

from ridgeformer.transformer import TransformerConfig
from ridgeformer.transformer.edits import SITES
from ridgeformer.types import Refusal

AGAIN = "compile the model again, or write config.json as docs/format.md says"


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that JSON holds is one of the type; NaN is no number."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(fits(value, one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        alike = isinstance(value, (list, tuple)) and len(value) == len(kinds)
        return alike and all(map(fits, value, kinds))
    if hint is float:
        return type(value) in (int, float) and not isnan(value)
    if hint is int:
        return type(value) is int
    return isinstance(value, get_origin(hint) or hint)


def check_sites(sites: Any, config: TransformerConfig) -> None:
    """Refuses sites that do not say where things are read, or name places that the model does not have."""
    if not isinstance(sites, dict) or {"predictions", "states", "layers"} - set(sites):
        raise Refusal(f"The sites lack predictions, states or layers: {AGAIN}.")
    states = sites["states"]
    if not isinstance(states, dict) or not sites["predictions"]:
        raise Refusal(f"The sites list no predictions or states: {AGAIN}.")
    for name, entries in {"predictions": sites["predictions"], **states}.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            if not sound_entry(entry, config):
                raise Refusal(
                    f"The sites have an entry of {name} that cannot be read: {AGAIN}; got {str(entry)[:80]}."
                )
    layers = sites["layers"]
    if not isinstance(layers, list) or len(layers) != config.n_layers:
        raise Refusal(f"The sites must describe each of {config.n_layers} layers: {AGAIN}.")
    for number, layer in enumerate(layers):
        if not sound_layer(layer, config):
            raise Refusal(
                f"The sites describe layer {number} in a way that cannot be read: {AGAIN}."
            )


def sound_entry(entry: Any, config: TransformerConfig) -> bool:
    """Whether an entry names a site, a step, columns of the stream, and what else is to be done."""

    def early_exit(value: Any) -> bool:
        first, stop = value
        return fits(value, tuple[int, int]) and 0 <= first <= stop

    needed: dict[str, Callable[[Any], bool]] = {
        "step": natural,
        "site": lambda site: sound_site(site, config),
        "columns": lambda value: columns(value, config.d_model),
    }
    options: dict[str, Callable[[Any], bool]] = {
        "over": needed["columns"],
        "scale": lambda value: fits(value, float),
        "period": natural,
        "through": early_exit,
        "times": lambda value: needed["columns"](value["columns"]) and fits(value["factor"], float),
    }
    if not isinstance(entry, dict) or set(needed) - set(entry):
        return False
    if ("through" in entry) != ("times" in entry):
        return False
    try:
        return all(test(entry[name]) for name, test in (needed | options).items() if name in entry)
    except (TypeError, ValueError, KeyError):
        return False


def sound_site(site: Any, config: TransformerConfig) -> bool:
    """Whether a site is one of the model's; blocks of a loop are numbered as they are applied."""
    if site == "embed":
        return True
    blocks, number, name = site.split(".", 2) if isinstance(site, str) else ("", "", "")
    there = number.isdecimal() and (config.loop is not None or int(number) < config.n_layers)
    return blocks == "blocks" and there and name in SITES


def sound_layer(layer: Any, config: TransformerConfig) -> bool:
    """Whether the parts of a block's heads and MLP say what they do, read and write."""
    if not isinstance(layer, dict) or not {"attention", "mlp"} <= set(layer):
        return False
    if not all(isinstance(layer[side], list) for side in ("attention", "mlp")):
        return False
    if len(layer["attention"]) > config.n_heads:
        return False
    words = {"attention": ("does", "from", "to"), "mlp": ("does",)}
    return all(
        isinstance(part, dict)
        and all(isinstance(part.get(name), str) for name in words[side])
        and all(columns(part.get(name), config.d_model) for name in ("reads", "writes"))
        for side in words
        for part in layer[side]
    )


def natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def columns(value: Any, width: int) -> bool:
    return isinstance(value, list) and all(natural(c) and c < width for c in value)
