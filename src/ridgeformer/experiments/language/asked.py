"""A language model as tasks need it: found by its directory, known by its content, and loaded once per process."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer.language import LanguageModel, LanguageTask, Problems
from ridgeformer.tasks.learnable import generator_of
from ridgeformer.transformer.storage import file_hash
from ridgeformer.types import Refusal

METHOD = 2
"""Counted up when a change of the method makes old answers worthless."""


@cache
def loaded(directory: str) -> LanguageModel:
    """The model of a directory; every process loads it once."""
    return LanguageModel.load(directory)


@cache
def untrained(directory: str, seed: int) -> LanguageModel:
    """The same model with random weights; every process makes it once."""
    return loaded(directory).untrained(seed)


def fingerprint(directory: str | Path) -> str:
    """A name for the content of a model's weights, configuration and tokenizer."""
    folder = Path(directory)
    if not folder.is_dir():
        raise Refusal(
            f"There is no directory {folder} with a language model: `ridgeformer lm fetch` gets one."
        )
    kept = [p for p in sorted(folder.iterdir()) if p.suffix in (".safetensors", ".json")]
    text = " ".join(f"{path.name} {file_hash(path)}" for path in kept)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def drawn(task: LanguageTask, seed: int, number: int) -> Problems:
    """One problem of a task, which does not depend on how many others are drawn."""
    return task.draw(1, generator_of(seed, number).initial_seed())


def joined(problems: Sequence[Problems]) -> Problems:
    """Problems of equal size as one batch."""

    def cat(parts: Sequence[Tensor | None]) -> Tensor | None:
        there = [part for part in parts if part is not None]
        return torch.cat(there) if there else None

    return Problems(
        tuple(chain.from_iterable(p.inputs for p in problems)),
        torch.cat([p.targets for p in problems]),
        tuple(chain.from_iterable(p.queries for p in problems)),
        torch.cat([p.query_targets for p in problems]),
        cat([p.features for p in problems]),
        cat([p.query_features for p in problems]),
    )


def digest(problem: Problems) -> str:
    """A name for the texts and targets of problems, so that other words under one task's name are told apart."""
    parts = (problem.inputs, problem.targets.tolist(), problem.queries, problem.query_targets.tolist())  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def packed(values: Tensor) -> dict[str, Any]:
    """A tensor in float32 as plain data, four times smaller than its digits."""
    array = values.float().contiguous().numpy().astype("<f4")
    return {"shape": list(array.shape), "float32": base64.b64encode(array.tobytes()).decode()}


def unpacked(plain: dict[str, Any]) -> Tensor:
    array = np.frombuffer(base64.b64decode(plain["float32"]), dtype="<f4")
    return torch.from_numpy(array.reshape(plain["shape"]).astype("float32"))
