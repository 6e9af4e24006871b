"""Saved models: a directory with config.json and model.safetensors, as docs/format.md describes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from ridgeformer.transformer.config import TransformerConfig
from ridgeformer.transformer.model import Transformer
from ridgeformer.transformer.shapes import shapes
from ridgeformer.types import Refusal, counted
from ridgeformer.whole import read_text, reason, written_whole

FORMAT = "ridgeformer/1"
WEIGHTS_HASH, CONFIG_HASH = "weights_sha256", "config_sha256"


MODEL = "config.json", "a saved model"
"""The file that a directory has which `force` may replace, and what it then holds."""


def check_writable(
    directory: str | Path, force: bool = False, held: tuple[str, str] = MODEL
) -> None:
    """Refuses a directory that cannot be written, before any work is done for it."""
    target = Path(directory)
    if target.exists():
        if not target.is_dir():
            raise Refusal(f"{target} is a file, not a directory: choose another `directory`.")
        if any(target.iterdir()):
            if not force:
                raise Refusal(
                    f"{target} exists and is not empty: choose another `directory`, or `force=True`."
                )
            if not (target / held[0]).exists():
                raise Refusal(
                    f"{target} does not hold {held[1]}, so `force=True` will not replace it."
                )
    parent = target.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise Refusal(f"{target} cannot be written: {parent} is not a writable directory.")


def save(
    model: Transformer,
    directory: str | Path,
    extra: dict[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Writes the model whole or not at all; config.json has the entries of `extra` besides the shape."""
    config = {"format": FORMAT, **model.config.to_dict(), **(extra or {})}
    with whole_directory(directory, force) as partial:
        weights = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
        path = partial / "model.safetensors"
        save_file(weights, path, metadata={CONFIG_HASH: config_hash(config)})
        config[WEIGHTS_HASH] = file_hash(path)
        (partial / "config.json").write_text(json.dumps(config, indent=1) + "\n")


@contextmanager
def whole_directory(
    directory: str | Path, force: bool = False, held: tuple[str, str] = MODEL
) -> Iterator[Path]:
    """A directory to write in; it gets its final name when all is written, and is deleted after an error."""
    target = Path(directory)
    check_writable(target, force, held)
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        with written_whole(target.absolute()) as partial:
            partial.mkdir()
            yield partial
            for path in partial.rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise Refusal(f"{target} cannot be written: {why}.") from error


def file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def config_hash(config: dict[str, Any]) -> str:
    """The hash of config.json without the hash of the weights, which is written later."""
    rest = {name: value for name, value in config.items() if name != WEIGHTS_HASH}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_unaltered(path: Path, config: dict[str, Any]) -> None:
    """Refuses altered files: each carries the other's hash, but a model written by hand need not."""
    if config.get(WEIGHTS_HASH, (seen := file_hash(path))) != seen:
        raise Refusal(f"{path} is damaged or was altered: its hash is not the one in config.json.")
    with safe_open(path, framework="pt") as file:
        expected = (file.metadata() or {}).get(CONFIG_HASH)
    if expected is not None and expected != config_hash(config):
        raise Refusal(f"{path.parent / 'config.json'} was altered after the model was saved.")


def read_config(directory: str | Path) -> dict[str, Any]:
    """The config.json of a saved model."""
    path = Path(directory) / "config.json"
    if not path.is_file():
        raise Refusal(f"{directory} holds no saved model: there is no file {path.name} in it.")
    try:
        config = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(f"{path} is damaged or unreadable: {reason(error)}.") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        seen = config.get("format") if isinstance(config, dict) else None
        raise Refusal(f"{path} does not say format {FORMAT!r} (it says {seen!r}): not our model.")
    return config


def load(directory: str | Path) -> tuple[Transformer, dict[str, Any]]:
    """The model and its whole config.json; a truncated or altered file is refused.

    Nothing is allocated before the shapes that config.json says are those in the header of the weights.
    """
    config = read_config(directory)
    path = Path(directory) / "model.safetensors"
    try:
        shape = TransformerConfig.from_dict(config)
        shapes(shape)
    except Refusal as refusal:
        raise Refusal(
            f"{Path(directory) / 'config.json'} describes no model: {refusal}"
        ) from refusal
    if not path.is_file():
        raise Refusal(f"{directory} is incomplete: there is no {path.name} in it.")
    try:
        check_unaltered(path, config)
        with safe_open(path, framework="pt") as file:
            check_shapes(path, file, shape)
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise Refusal(
            f"{path} is damaged: {reason(error)}. Compile or copy the model again."
        ) from error
    for name, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            raise Refusal(f"{path} is damaged: {name} has NaN or infinite entries.")
    with torch.device("meta"):  # without memory, which the weights have already
        model = Transformer(shape, init="zero")
    model.load_state_dict(weights, assign=True)
    return model, config


STORED_AS = {"float32": "F32", "float64": "F64"}
"""The names that safetensors has for types."""


def check_shapes(path: Path, file: Any, shape: TransformerConfig) -> None:
    """Compares the header of the weights with what a transformer of that shape has."""
    once, each = shapes(shape)
    names = set(file.keys())
    count = len(once) + shape.n_layers * len(each)
    if len(names) < count and shape.n_layers > len(
        names
    ):  # so many layers that listing them takes long
        raise Refusal(
            f"{path} does not fit its config.json: it has {counted(len(names), 'tensor')}, and "
            f"{shape.n_layers:,} layers need {count:,}."
        )
    expected = once | {
        f"blocks.{layer}.{name}": size
        for layer in range(shape.n_layers)
        for name, size in each.items()
    }
    if odd := sorted(names ^ set(expected)):
        raise Refusal(
            f"{path} does not fit its config.json: tensor {odd[0]} is missing or unexpected."
        )
    wanted = STORED_AS[shape.dtype]
    for name in sorted(names):
        part = file.get_slice(name)
        size, dtype = part.get_shape(), part.get_dtype()
        if size != expected[name] or dtype != wanted:
            raise Refusal(
                f"{path} does not fit its config.json: {name} is {size} {dtype}, expected "
                f"{expected[name]} {wanted}."
            )
