"""What a kernel is: a function of two sets of features, and the few things solvers ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.types import Refusal


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

    def lipschitz(self, max_norm: float) -> float:
        """The least known c with |k(a, b) − k(â, b̂)| ≤ c(|a − â| + |b − b̂|) for norms up to max_norm."""
        raise Refusal(
            f"No Lipschitz constant of the kernel {self.name!r} is known: define `lipschitz`."
        )

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        """A bound on |k(a_i, b_j) − k(â_i, b̂_j)| for every pair, when a and b have moved to â and b̂."""
        raise Refusal(
            f"No bound on the drift of the kernel {self.name!r} is known: define `drift`."
        )

    def linear_features(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n m"] | None:
        """The U a of a kernel ⟨Ua, Ub⟩; None when the kernel is no dot product of linear features."""
        return None


def dot_product_drift(
    a: Tensor, a_moved: Tensor, b: Tensor, b_moved: Tensor, slope: Callable[[Tensor], Tensor]
) -> Tensor:
    """`Kernel.drift` of k(a, b) = h(⟨a, b⟩), where slope(z) is the largest |h'| on [−z, z]."""
    norm_a, norm_b = (
        torch.maximum(x.norm(dim=-1), moved.norm(dim=-1))
        for x, moved in ((a, a_moved), (b, b_moved))
    )
    by_a, by_b = ((x - moved).norm(dim=-1) for x, moved in ((a, a_moved), (b, b_moved)))
    largest = norm_a[:, :, None] * norm_b[:, None, :]
    change = by_a[:, :, None] * norm_b[:, None, :] + norm_a[:, :, None] * by_b[:, None, :]
    bound: Tensor = change * slope(largest)
    return bound
