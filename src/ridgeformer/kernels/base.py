"""What a kernel is: a function of two sets of features, and what it says of itself to the compiler."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from math import exp, sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.feature_map import FeatureMap
from ridgeformer.registry import Registry
from ridgeformer.types import Refusal, check_number

LARGEST_SCALE = 1e100
"""Lengths are squared and multiplied, and must stay in the range of floating point."""

LARGEST_EXPONENT = 600.0
"""exp of more than this leaves the range of floating point once it is squared."""


@dataclass(frozen=True)
class Range:
    """What a kernel's values can be for features of bounded norm."""

    least: float
    most: float
    least_diagonal: float
    """The smallest k(a, a)."""


@dataclass(frozen=True)
class Logits:
    """How softmax attention makes the kernel: k(a, b) = exp(s⟨u(a), u(b)⟩ − n|u(a)|² − n|u(b)|²)."""

    features: FeatureMap
    """u."""
    scale: float
    """s."""
    norm: float = 0.0
    """n."""

    def largest(self, max_norm: float) -> float:
        """A bound on |logit| for |a|, |b| ≤ max_norm."""
        return (self.scale + 2 * self.norm) * self.features.longest(max_norm) ** 2


class Kernel(ABC):
    """A positive semi-definite kernel on feature vectors, batched over prompts.

    A kernel that attention can make says so in `dot_product` or `logits`, and has everything else from
    there. Any other kernel defines `__call__` and `diagonal`; solvers run on it, and the compiler
    refuses it.
    """

    name: str
    registry: ClassVar[Registry[type[Kernel]]] = Registry("kernel")

    def dot_product(self, features: int) -> FeatureMap | None:
        """u with k(a, b) = ⟨u(a), u(b)⟩ for so many features, which linear attention computes; None
        where there is none."""
        return None

    def logits(self) -> Logits | None:
        """The exponent, where the kernel is an exponential, which softmax attention computes."""
        return None

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        """The matrix k(a_i, b_j)."""
        features, logits = self.dot_product(a.shape[-1]), self.logits()
        if features is not None:
            return features(a) @ features(b).mT
        if logits is None:
            raise self.undefined()
        u, v = logits.features(a), logits.features(b)
        exponent = logits.scale * u @ v.mT
        if logits.norm:
            own, other = (logits.norm * x.square().sum(-1) for x in (u, v))
            exponent = exponent - own[..., :, None] - other[..., None, :]
        return exponent.exp()

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        """The values k(a_i, a_i), without the matrix."""
        features, logits = self.dot_product(a.shape[-1]), self.logits()
        if features is not None:
            return features(a).square().sum(-1, keepdim=True)
        if logits is None:
            raise self.undefined()
        squares = logits.features(a).square().sum(-1, keepdim=True)
        return ((logits.scale - 2 * logits.norm) * squares).exp()

    def range(self, max_norm: float) -> Range:
        """The range of k(a, b) for |a|, |b| ≤ max_norm."""
        logits = self.logits()
        if logits is None:
            raise Refusal(f"The {self.name} kernel does not say how large its values can be.")
        own = (logits.scale - 2 * logits.norm) * logits.features.longest(max_norm) ** 2
        highest = max(0.0, own)
        if highest > LARGEST_EXPONENT:
            raise Refusal(
                f"Values of the {self.name} kernel would reach exp({highest:.4g}), beyond the range of "
                "floating point: raise the `temperature` or lower `max_norm`."
            )
        return Range(exp(-logits.largest(max_norm)), exp(highest), exp(min(0.0, own)))

    def undefined(self) -> Refusal:
        return Refusal(
            f"The {self.name} kernel does not say what its values are: define `dot_product` or `logits`, "
            "or else `__call__` and `diagonal`."
        )

    def factor(self, phi: Float[Tensor, "batch k p"]) -> Float[Tensor, "batch k u"] | None:
        """F with K = F Fᵀ and fewer columns than rows, where products with K are cheaper through it."""
        return None

    @property
    def label(self) -> str:
        """The kernel in a table of several."""
        return self.name

    @classmethod
    def examples(cls) -> tuple[Kernel, ...]:
        """The instances that the catalogue tries to compile."""
        return (cls(),)

    def to_dict(self) -> dict[str, Any]:
        """The kernel as plain values, for config.json; `kernel_from` reads them."""
        values: dict[str, Any] = {"name": self.name}
        if is_dataclass(self):
            for field in fields(self):
                value = getattr(self, field.name)
                values[field.name] = value.tolist() if isinstance(value, Tensor) else value
        return values

    @classmethod
    def from_dict(cls, options: dict[str, Any]) -> Kernel:
        """The kernel with the options that `to_dict` wrote, without the name."""
        return cls(**options)

    def lipschitz(self, max_norm: float) -> float:
        """A c with |k(a, b) − k(â, b̂)| ≤ c(|a − â| + |b − b̂|) for all features of norm up to max_norm."""
        logits = self.logits()
        if logits is None or not logits.features.linear:
            raise Refusal(
                f"No Lipschitz constant of the {self.name} kernel is known: define `lipschitz`."
            )
        longest, stretch = logits.features.longest(max_norm), logits.features.longest(1.0)
        if logits.norm:
            return self.distance_slope(logits) * stretch
        return logits.scale * stretch * longest * exp(logits.scale * longest**2)

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        """A bound on |k(a_i, b_j) − k(â_i, b̂_j)| for every pair, when a and b have moved to â and b̂."""
        logits = self.logits()
        if logits is None:
            raise Refusal(
                f"No bound on the drift of the {self.name} kernel is known: define `drift`."
            )
        a, a_moved, b, b_moved = (logits.features(x) for x in (a, a_moved, b, b_moved))
        if logits.norm:
            by_a, by_b = ((x - moved).norm(dim=-1) for x, moved in ((a, a_moved), (b, b_moved)))
            bound: Tensor = self.distance_slope(logits) * (by_a[:, :, None] + by_b[:, None, :])
            return bound
        scale = logits.scale
        return dot_product_drift(a, a_moved, b, b_moved, lambda z: scale * (scale * z).exp())

    def distance_slope(self, logits: Logits) -> float:
        """e^{−1/2}√s, the largest slope of exp(−s·d²/2) in the distance d."""
        if 2 * logits.norm != logits.scale:
            raise Refusal(
                f"No bound on the drift of the {self.name} kernel is known: define `lipschitz` and `drift`."
            )
        return exp(-0.5) * sqrt(logits.scale)


def check_scale(name: str, value: float, symbol: str) -> None:
    """Refuses a scale of features that is not positive, or whose square leaves floating point."""
    check_number(name, value)
    if not value > 0:
        raise Refusal(f"The {name} must be positive, got {value}: choose {symbol} > 0.")
    if not 1 / LARGEST_SCALE < value < LARGEST_SCALE:
        raise Refusal(
            f"The {name} must lie between {1 / LARGEST_SCALE:g} and {LARGEST_SCALE:g}, got {value}: rescale the "
            "features."
        )


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
