"""`Prompt`: the supports and queries of a batch of in-context problems; `Task`: what draws them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.registry import Registry
from ridgeformer.tasks.arrays import read_npz, write_arrays
from ridgeformer.transformer.devices import check_precision, device_named
from ridgeformer.types import Refusal, check_number, check_whole, counted

Array = Tensor | np.ndarray | Sequence[Any]
PROMPT_FILE = "a prompt file is an .npz with phi [B,k,p], y [B,k,r] and phi_query [B,q,p]"
Rows = int | slice | Tensor | np.ndarray | Sequence[int]


@dataclass(frozen=True, init=False)
class Prompt:
    """A batch of problems that share k, p, q and r: supports (φ, y), and query features.

    Tensors are taken as they are; NumPy arrays and lists become float32 if all of them are, and else
    float64. A single problem may be given without its batch dimension, its targets as [k] or [k, r]
    and its queries as [p] or [q, p].
    """

    phi: Float[Tensor, "batch k p"]
    y: Float[Tensor, "batch k r"]
    phi_query: Float[Tensor, "batch q p"]

    def __init__(self, phi: Array, y: Array, phi_query: Array) -> None:
        values = in_batches(*as_tensors(phi=phi, y=y, phi_query=phi_query))
        for name, value in zip(("phi", "y", "phi_query"), values, strict=True):
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Refuses shapes that do not fit, empty dimensions, other types, and numbers that are not finite."""
        shapes = f"phi {list(self.phi.shape)}, y {list(self.y.shape)}, phi_query {list(self.phi_query.shape)}"
        if any(t.ndim != 3 for t in (self.phi, self.y, self.phi_query)):
            raise Refusal(
                f"A prompt needs phi [B,k,p], y [B,k,r], phi_query [B,q,p]; got {shapes}."
            )
        if self.phi.shape[1] == 0:
            raise Refusal("The prompt has no support (k = 0): give at least one example.")
        if 0 in (*self.phi.shape, *self.y.shape, *self.phi_query.shape):
            raise Refusal(f"No dimension of a prompt may be empty; got {shapes}.")
        if self.y.shape[:2] != self.phi.shape[:2]:
            raise Refusal(f"Each support needs one target: phi and y disagree; got {shapes}.")
        if (self.phi_query.shape[0], self.phi_query.shape[2]) != (
            self.phi.shape[0],
            self.phi.shape[2],
        ):
            raise Refusal(f"Queries need the supports' batch and feature sizes; got {shapes}.")
        kinds = {t.dtype for t in (self.phi, self.y, self.phi_query)}
        if len(kinds) > 1 or not kinds <= {torch.float32, torch.float64}:
            seen = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
            raise Refusal(
                f"A prompt holds float32 numbers, or float64 numbers; got tensors of {seen}: convert them, "
                "such as with `.double()`."
            )
        for name in ("phi", "y", "phi_query"):
            tensor = getattr(self, name)
            # A subclass of tensors may say that it is on `meta` and hold its numbers elsewhere.
            if tensor.layout != torch.strided or (type(tensor) is Tensor and tensor.is_meta):
                raise Refusal(
                    f"A prompt holds dense tensors with data; {name} is sparse, or has none."
                )
            if not torch.isfinite(getattr(self, name)).all():
                raise Refusal(
                    f"{name} contains NaN or infinite entries: remove or impute them first."
                )

    @property
    def supports(self) -> int:
        return self.phi.shape[1]

    @property
    def features(self) -> int:
        return self.phi.shape[2]

    @property
    def outputs(self) -> int:
        return self.y.shape[2]

    def __len__(self) -> int:
        """The number of problems in the batch."""
        return self.phi.shape[0]

    def __getitem__(self, rows: Rows) -> Prompt:
        """Some of the problems, in a batch of their own; `prompt[3]` is a batch of one."""
        if isinstance(rows, int):
            start = range(len(self))[rows]
            rows = slice(start, start + 1)
        return Prompt(self.phi[rows], self.y[rows], self.phi_query[rows])

    def to(self, target: torch.dtype | torch.device | str) -> Prompt:
        """The prompt on another device or in another precision."""
        if not isinstance(target, torch.dtype):
            check_precision(
                self.phi.dtype, target, "take the prompt there in float32, `.to(torch.float32)`"
            )
            if isinstance(target, str):
                target = device_named(target)
        return Prompt(self.phi.to(target), self.y.to(target), self.phi_query.to(target))

    def inside(self, max_norm: float, max_target: float | None = None) -> Prompt:
        """The prompt brought inside a domain: longer features shrunk, larger targets clipped."""

        def shrunk(x: Tensor) -> Tensor:
            longest: Tensor = x.norm(dim=-1, keepdim=True)
            return x * (max_norm / longest).clamp(max=1.0)

        y = self.y if max_target is None else self.y.clamp(-max_target, max_target)
        return Prompt(shrunk(self.phi), y, shrunk(self.phi_query))

    def tokens(self) -> Float[Tensor, "batch n d_in"]:
        """The token sequence: k supports, one aggregator, then the queries.

        A token is [φ | y | is_support | is_aggregator | is_query]; a query's y is 0.
        """
        batch, k, p = self.phi.shape
        r, q = self.outputs, self.phi_query.shape[1]
        tokens = self.phi.new_zeros(batch, k + 1 + q, p + r + 3)
        tokens[:, :k, :p] = self.phi
        tokens[:, :k, p : p + r] = self.y
        tokens[:, k + 1 :, :p] = self.phi_query
        tokens[:, :k, p + r] = 1
        tokens[:, k, p + r + 1] = 1
        tokens[:, k + 1 :, p + r + 2] = 1
        return tokens

    def alternating_tokens(self) -> Float[Tensor, "batch n d_in"]:
        """The token sequence x₁, (x₁, y₁), x₂, (x₂, y₂), …, then the queries, without an aggregator.

        A pair is a support of `tokens`, and an x is one of its queries.
        """
        batch, k, p = self.phi.shape
        r, q = self.outputs, self.phi_query.shape[1]
        tokens = self.phi.new_zeros(batch, 2 * k + q, p + r + 3)
        pairs, xs = tokens[:, 1 : 2 * k : 2], tokens[:, 0 : 2 * k : 2]
        pairs[..., :p], pairs[..., p : p + r], pairs[..., p + r] = self.phi, self.y, 1
        xs[..., :p], xs[..., p + r + 2] = self.phi, 1
        tokens[:, 2 * k :, :p], tokens[:, 2 * k :, p + r + 2] = self.phi_query, 1
        return tokens

    def save(self, path: str | Path) -> None:
        here = self.to("cpu")
        write_arrays(path, phi=here.phi.numpy(), y=here.y.numpy(), phi_query=here.phi_query.numpy())

    @staticmethod
    def load(path: str | Path) -> Prompt:
        """Reads an .npz file with phi, y and phi_query, as float64 unless it holds float32."""
        return Prompt(*read_npz(path, ("phi", "y", "phi_query"), PROMPT_FILE))

    def __repr__(self) -> str:
        queries, device = self.phi_query.shape[1], self.phi.device
        return (
            f"Prompt: {counted(len(self), 'problem')} of {counted(self.supports, 'support')} and "
            f"{counted(queries, 'query', 'queries')}, {counted(self.features, 'feature')}, "
            f"{counted(self.outputs, 'output')}, {str(self.phi.dtype).removeprefix('torch.')}"
            + (f" on {device}" if device.type != "cpu" else "")
        )


def check_prompt(prompt: Any) -> None:
    """Refuses what is no prompt, with what to write."""
    if not isinstance(prompt, Prompt):
        raise Refusal(
            f"A prompt is needed, such as `Prompt(phi, y, phi_query)`, or `Prompt.load(path)` for a file; got "
            f"{str(prompt)[:80]!r}, of type {type(prompt).__name__}."
        )


def as_tensors(**values: Array) -> list[Tensor]:
    """Tensors as they are; with arrays among them, all as float32 if all are, and else as float64."""
    if all(isinstance(value, Tensor) for value in values.values()):
        return list(values.values())  # type: ignore[arg-type]
    arrays = {}
    for name, value in values.items():
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise Refusal(
                f"{name} has masked entries, which a prompt cannot hold: remove or impute them first."
            )
        try:
            arrays[name] = array = np.asarray(value)
        except ValueError as error:
            raise Refusal(
                f"A prompt must hold arrays; {name} is a list of rows of unequal lengths."
            ) from error
        if array.dtype.kind not in "fiu":
            raise Refusal(f"A prompt must hold real numbers; got {name} of type {array.dtype}.")
    single = all(array.dtype == np.float32 for array in arrays.values())
    dtype = np.float32 if single else np.float64
    with np.errstate(over="ignore"):  # what float64 does not hold is infinite, and refused as such
        return [torch.from_numpy(array.astype(dtype)) for array in arrays.values()]


def in_batches(phi: Tensor, y: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A single problem as a batch of one; all else as it is."""
    if phi.ndim != 2 or y.ndim not in (1, 2) or query.ndim not in (1, 2):
        return phi, y, query
    y = y[:, None] if y.ndim == 1 else y
    query = query[None] if query.ndim == 1 else query
    return phi[None], y[None], query[None]


class Task(ABC):
    """A distribution over prompts."""

    name: str
    registry: ClassVar[Registry[Any]] = Registry("task")

    @abstractmethod
    def draw(self, batch: int, seed: int) -> Prompt:
        """Draws a batch of prompts; the same seed draws the same prompts."""


def seeded(batch: Any, seed: Any) -> torch.Generator:
    """The generator of a draw; a batch or a seed that is none is refused."""
    check_whole("batch", batch, 1)
    check_whole("seed", seed)
    if seed >= 2**64:
        raise Refusal(f"`seed` must be below 2^64, got {seed}.")
    return torch.Generator().manual_seed(int(seed))


LARGEST = 1_000_000
"""The most features, supports, queries or outputs: for far more, PyTorch ends in errors of its own."""


def check_sizes(task: Any) -> None:
    """Refuses a task whose prompts would be empty, or too large for any machine."""
    for name in ("features", "supports", "queries", "outputs"):
        size: Any = getattr(task, name)
        if isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise Refusal(f"A {task.name} task needs whole {name}; got {name} {size!r}.")
        if size < 1:
            raise Refusal(f"A {task.name} task needs {name} ≥ 1; got {name} {size}.")
        if size > LARGEST:
            raise Refusal(f"A {task.name} task needs {name} ≤ {LARGEST:,}; got {name} {size:,}.")


def check_finite(task: Any, *names: str) -> None:
    """Refuses numbers that would leave nothing finite in a prompt."""
    for name in names:
        check_number(name, value := getattr(task, name))
        if not isfinite(value):
            raise Refusal(f"A {task.name} task needs a finite {name}; got {name} {value}.")
