"""A looped model written out: the blocks and sites of as many passes as are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ridgeformer.transformer import Transformer, TransformerConfig


def unrolled_sites(
    sites: dict[str, Any], config: TransformerConfig, steps: int, loops: int
) -> dict[str, Any]:
    """The sites with an entry for each step, the blocks numbered as they are applied."""

    def of_steps(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        later = 0 if config.loop is None else (loops - 1) * (config.loop[1] - config.loop[0])
        return [one for entry in entries for one in repeated(exit_after(entry, later), steps)]

    return {
        **sites,
        "predictions": of_steps(sites["predictions"]),
        "states": {name: of_steps(entries) for name, entries in sites["states"].items()},
        "layers": [sites["layers"][block] for block in config.applied(loops)],
    }


def exit_after(entry: dict[str, Any], later: int) -> dict[str, Any]:
    """The entry; the blocks of an early exit, which stand behind a loop, are so many further on."""
    if "through" not in entry:
        return entry
    return entry | {"through": [block + later for block in entry["through"]]}


def repeated(entry: dict[str, Any], steps: int) -> Iterator[dict[str, Any]]:
    """An entry with a `period` is one of every later step too, so many blocks further on."""
    if "period" not in entry:
        yield entry
        return
    once = {name: value for name, value in entry.items() if name != "period"}
    blocks, block, place = entry["site"].split(".")
    for step in range(entry["step"], steps + 1):
        later = int(block) + (step - entry["step"]) * entry["period"]
        yield once | {"step": step, "site": f"{blocks}.{later}.{place}"}


def unrolled_transformer(model: Transformer, loops: int) -> Transformer:
    """The same transformer without a loop, with copies of the blocks that are repeated."""
    applied = model.config.applied(loops)
    config = replace(model.config, n_layers=len(applied), loop=None)
    written_out = Transformer(config, init="zero").requires_grad_(False)
    weights = model.state_dict()
    blocks = [
        [n for n in weights if n.startswith(f"blocks.{b}.")] for b in range(model.config.n_layers)
    ]
    state = {name: value for name, value in weights.items() if not name.startswith("blocks.")}
    for number, block in enumerate(applied):
        for name in blocks[block]:
            state[name.replace(f"blocks.{block}.", f"blocks.{number}.", 1)] = weights[name]
    written_out.load_state_dict(state)
    return written_out
