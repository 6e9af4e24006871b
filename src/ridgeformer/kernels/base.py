"""What a kernel is: a function of two sets of features, and the few things solvers ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor


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
