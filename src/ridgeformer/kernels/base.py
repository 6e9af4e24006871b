"""What a kernel is: a function of two sets of features, and the few things solvers ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Range:
    """What a kernel's values can be for features of bounded norm."""

    least: float
    most: float
    least_diagonal: float
    """The smallest k(a, a)."""


class Kernel(ABC):
    """A positive semi-definite kernel on feature vectors, batched over prompts."""

    name: str

    @abstractmethod
    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        """The matrix k(a_i, b_j)."""

    @abstractmethod
    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        """The values k(a_i, a_i), without the matrix."""

    @abstractmethod
    def range(self, max_norm: float) -> Range:
        """The range of k(a, b) for |a|, |b| ≤ max_norm."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The kernel as plain values, for config.json; `kernel_from` reads them."""
