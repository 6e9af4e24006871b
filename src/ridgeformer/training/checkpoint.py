"""Checkpoints: everything that a run needs to go on as if it had never stopped.

A checkpoint is a directory `step-…` that holds the weights, the optimiser's moments, and a state.json
with the hashes of both. The directory gets its name when it is complete, and the checkpoint before it
is kept, so that a kill at any moment, or a damaged file, costs one interval at most.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ridgeformer.transformer import Transformer
from ridgeformer.transformer.storage import file_hash, whole_directory
from ridgeformer.types import Refusal
from ridgeformer.whole import clear_leftovers, reason, remove_whole

KEPT = 2
"""A run keeps this many of its newest checkpoints."""

FILES = ("weights.safetensors", "moments.safetensors")


def path_of(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:08d}"


def write(
    folder: Path,
    step: int,
    model: Transformer,
    optimiser: torch.optim.Optimizer,
    recipe: dict[str, Any],
    clock: float,
    losses: list[float],
) -> None:
    """Writes the checkpoint of a step, and deletes those that are too old to keep.

    `losses` are those of the steps since the last line of the log.
    """
    moments: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        for key, value in optimiser.state[weight].items():
            moments[f"{name}:{key}"] = torch.as_tensor(value).detach().clone()
    if path_of(folder, step).exists():  # It is damaged, or a resumed run started before it.
        remove_whole(path_of(folder, step))
    with whole_directory(path_of(folder, step)) as partial:
        weights = {name: w.detach().contiguous() for name, w in model.state_dict().items()}
        save_file(weights, partial / FILES[0])
        save_file(moments, partial / FILES[1])
        state = {
            "step": step,
            "recipe": recipe,
            "seconds": clock,
            "losses": losses,
            "hashes": {file: file_hash(partial / file) for file in FILES},
        }
        (partial / "state.json").write_text(json.dumps(state, indent=1) + "\n")
    for old in sorted((folder / "checkpoints").glob("step-*"))[:-KEPT]:
        remove_whole(old)


def clear(folder: Path) -> None:
    """Deletes what a run that was killed left of checkpoints that it wrote or deleted."""
    clear_leftovers(folder / "checkpoints")


def newest_first(folder: Path) -> Iterator[Path]:
    """The checkpoints of a run, damaged ones included."""
    yield from sorted((folder / "checkpoints").glob("step-*"), reverse=True)


def read_state(path: Path) -> dict[str, Any]:
    """Reads state.json and checks both files against it; a ValueError says what is damaged."""
    try:
        state: dict[str, Any] = json.loads((path / "state.json").read_text())
        for file in FILES:
            if file_hash(path / file) != state["hashes"][file]:
                raise ValueError(f"{file} is damaged")
    except (OSError, KeyError, TypeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"state.json or a file is missing or damaged ({reason(error)})") from error
    return state


def restore(path: Path, model: Transformer, optimiser: torch.optim.Optimizer) -> None:
    """Loads a checkpoint into the model and its optimiser."""
    try:
        model.load_state_dict(load_file(path / FILES[0]))
        moments = load_file(path / FILES[1])
    except (SafetensorError, RuntimeError, OSError) as error:
        raise Refusal(f"{path} does not fit the recipe: {reason(error)}.") from error
    for name, weight in model.named_parameters():
        of = f"{name}:"
        optimiser.state[weight] = {
            key.removeprefix(of): value.to(weight.device)
            for key, value in moments.items()
            if key.startswith(of)
        }
