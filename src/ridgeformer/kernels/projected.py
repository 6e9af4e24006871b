"""Kernels that see features through a matrix U: with fewer rows than columns, through fewer of them."""

from __future__ import annotations

from abc import ABC
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel
from ridgeformer.kernels.feature_map import FeatureMap
from ridgeformer.types import Refusal

PROJECTION_HELP = "An .npy file with U [m, p]: the kernel sees Uφ alone."


class Projected(Kernel, ABC):
    """A kernel that sees its inputs through a matrix U, which a compiled model has in its embedding."""

    projection: Float[Tensor, "m p"] | None
    """U; the identity when left out."""

    def project(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n m"]:
        """U a, what a compiled model keeps of the features in its stream."""
        return FeatureMap(self.projection)(a)

    @property
    def stretch(self) -> float:
        """‖U‖₂."""
        if self.projection is None:
            return 1.0
        return float(torch.linalg.matrix_norm(self.projection, 2))

    @classmethod
    def from_dict(cls, options: dict[str, Any]) -> Kernel:
        matrix = options.get("projection")
        if matrix is not None:
            read = torch.tensor(matrix, dtype=torch.float64)
            if read.ndim != 2 or not torch.isfinite(read).all():
                raise Refusal(
                    f"A projection must be a matrix of finite numbers, got {list(read.shape)}."
                )
            options = options | {"projection": read}
        return cls(**options)
