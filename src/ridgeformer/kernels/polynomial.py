"""k(a, b) = (⟨a, b⟩ + c)^d."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import comb, factorial, inf, prod, sqrt

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels.base import Kernel, Range, dot_product_drift
from ridgeformer.kernels.feature_map import FeatureMap, Monomial, check_monomials
from ridgeformer.types import Refusal, check_number, check_whole


@dataclass(frozen=True)
class Polynomial(Kernel):
    """(⟨a, b⟩ + offset)^degree, a dot product of monomials; the degree is at most 3."""

    degree: int = field(default=2, metadata={"help": "Degree of the polynomial kernel."})
    offset: float = field(default=1.0, metadata={"help": "Offset of the polynomial kernel."})

    name = "polynomial"

    def __post_init__(self) -> None:
        check_whole("degree", self.degree)
        check_number("offset", self.offset)
        if self.degree < 1 or not 0 <= self.offset < inf:
            raise Refusal(
                "A polynomial kernel is positive semi-definite only for degree ≥ 1 and offset ≥ 0, "
                f"got degree {self.degree} and offset {self.offset}."
            )

    def dot_product(self, features: int) -> FeatureMap:
        """By the multinomial theorem (⟨a, b⟩ + c)^d = Σ_m d!/(m!(d − |m|)!)·c^{d−|m|}·a^m b^m over the
        exponents |m| ≤ d, so each x^m is a feature with the root of its coefficient in front."""
        degree, offset = self.degree, self.offset
        check_monomials(degree, comb(features + degree, degree))

        def weight(indices: tuple[int, ...]) -> float:
            repeats = prod(factorial(indices.count(i)) for i in set(indices))
            ways = factorial(degree) / (repeats * factorial(degree - len(indices)))
            return sqrt(ways * offset ** (degree - len(indices)))

        monomials = (
            Monomial(weight(indices), indices)
            for size in range(0 if offset else degree, degree + 1)
            for indices in combinations_with_replacement(range(features), size)
        )
        return FeatureMap(monomials=tuple(monomials))

    def __call__(
        self, a: Float[Tensor, "batch n p"], b: Float[Tensor, "batch m p"]
    ) -> Float[Tensor, "batch n m"]:
        return (a @ b.mT + self.offset) ** self.degree

    def diagonal(self, a: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n 1"]:
        return (a.square().sum(-1, keepdim=True) + self.offset) ** self.degree

    def range(self, max_norm: float) -> Range:
        top = (max_norm**2 + self.offset) ** self.degree
        return Range(-top, top, self.offset**self.degree)

    @property
    def label(self) -> str:
        return f"{self.name}, degree {self.degree}"

    @classmethod
    def examples(cls) -> tuple[Kernel, ...]:
        return cls(2), cls(3)

    def lipschitz(self, max_norm: float) -> float:
        """d·N·(N² + c)^{d−1} for norms up to N."""
        return max_norm * self.degree * (max_norm**2 + self.offset) ** (self.degree - 1)

    def drift(
        self,
        a: Float[Tensor, "batch n p"],
        a_moved: Float[Tensor, "batch n p"],
        b: Float[Tensor, "batch m p"],
        b_moved: Float[Tensor, "batch m p"],
    ) -> Float[Tensor, "batch n m"]:
        def slope(largest: Tensor) -> Tensor:
            return self.degree * (largest + self.offset) ** (self.degree - 1)

        return dot_product_drift(a, a_moved, b, b_moved, slope)
