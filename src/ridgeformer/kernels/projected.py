"""Kernels that see features through a matrix U: with fewer rows than columns, through fewer of them."""

from __future__ import annotations

from abc import ABC

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel
from ridgeformer.types import Refusal


class Projected(Kernel, ABC):
    projection: Float[Tensor, "m p"] | None
    """U; the identity when left out."""

    def project(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n m"]:
        """U a, what a compiled model keeps of the features in its stream."""
        return a if self.projection is None else a @ self.projection.to(a).mT

    @property
    def stretch(self) -> float:
        """‖U‖₂."""
        if self.projection is None:
            return 1.0
        return float(torch.linalg.matrix_norm(self.projection, 2))

    def kept(self, features: int) -> int:
        """How many of the features a model keeps in its stream."""
        if self.projection is None:
            return features
        rows, columns = self.projection.shape
        if columns != features:
            raise Refusal(
                f"The projection reads {columns} features, not {features}: use --features {columns}."
            )
        return rows
