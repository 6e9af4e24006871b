"""`Prompt`: the supports and queries of a batch of in-context problems; `Task`: what draws them."""

from __future__ import annotations

import os
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.registry import Registry
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Prompt:
    """A batch of problems that share k, p, q and r: supports (φ, y), and query features."""

    phi: Float[Tensor, "batch k p"]
    y: Float[Tensor, "batch k r"]
    phi_query: Float[Tensor, "batch q p"]

    def __post_init__(self) -> None:
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
        for name in ("phi", "y", "phi_query"):
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

    def to(self, dtype: torch.dtype) -> Prompt:
        return Prompt(self.phi.to(dtype), self.y.to(dtype), self.phi_query.to(dtype))

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

    def save(self, path: str | Path) -> None:
        write_arrays(path, phi=self.phi.numpy(), y=self.y.numpy(), phi_query=self.phi_query.numpy())

    @staticmethod
    def load(path: str | Path) -> Prompt:
        """Reads an .npz file with phi, y and phi_query, as float64 unless it holds float32."""
        try:
            with np.load(path, allow_pickle=False) as file:
                missing = {"phi", "y", "phi_query"} - set(file.files)
                if missing:
                    raise Refusal(
                        f"{path} lacks {', '.join(sorted(missing))}: a prompt file is an .npz with "
                        "phi [B,k,p], y [B,k,r] and phi_query [B,q,p]."
                    )
                arrays = [file[name] for name in ("phi", "y", "phi_query")]
        except FileNotFoundError as error:
            raise Refusal(f"There is no prompt file at {path}.") from error
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
            if isinstance(error, Refusal):
                raise
            raise Refusal(f"{path} cannot be read as an .npz prompt file: {error}.") from error
        if any(array.dtype.kind not in "fiu" for array in arrays):
            kinds = ", ".join(str(array.dtype) for array in arrays)
            raise Refusal(f"{path} must hold real numbers; got {kinds}.")
        single = all(array.dtype == np.float32 for array in arrays)
        dtype = np.float32 if single else np.float64
        return Prompt(*(torch.from_numpy(array.astype(dtype)) for array in arrays))


def write_arrays(path: str | Path, **arrays: np.ndarray) -> None:
    """Writes an .npz file whole or not at all, so that a failure never costs an existing file."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from error


class Task(ABC):
    """A distribution over prompts."""

    name: str
    registry: ClassVar[Registry[Any]] = Registry("task")

    @abstractmethod
    def draw(self, batch: int, seed: int) -> Prompt:
        """Draws a batch of prompts; the same seed draws the same prompts."""
