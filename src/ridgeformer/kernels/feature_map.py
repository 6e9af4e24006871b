"""`FeatureMap`: features u(φ) that a token can work out from its own φ, as numerics and as weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.types import Refusal

MOST_MONOMIALS, HIGHEST_DEGREE = 4096, 3
"""Beyond these a model would be too wide, or its features would take more than two layers."""


@dataclass(frozen=True)
class Monomial:
    """weight · Π x_i over `indices`, in rising order; (0, 0, 2) stands for x₀²x₂."""

    weight: float
    indices: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """u(φ), in up to three stages, each left out where it is None.

    projection   x = Uφ, which a compiled model has in its embedding
    hidden       x ← relu(Wx + b), one layer of the MLP
    monomials    u_m = weight · Π x_i for each monomial of degree at most 3, which takes a gated MLP
    """

    projection: Float[Tensor, "m p"] | None = None
    hidden: tuple[Float[Tensor, "h m"], Float[Tensor, " h"]] | None = None
    monomials: tuple[Monomial, ...] | None = None

    def __post_init__(self) -> None:
        if self.monomials is not None:
            degree = max(len(m.indices) for m in self.monomials)
            check_monomials(degree, len(self.monomials))

    @property
    def linear(self) -> bool:
        """Whether u is the projection alone."""
        return self.hidden is None and self.monomials is None

    def __call__(self, phi: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n u"]:
        self.projected_width(phi.shape[-1])
        x = phi if self.projection is None else phi @ self.projection.to(phi).mT
        if self.hidden is not None:
            weights, bias = (part.to(phi) for part in self.hidden)
            x = torch.relu(x @ weights.mT + bias)
        if self.monomials is None:
            return x
        one = torch.ones_like(x[..., 0])
        return torch.stack(
            [m.weight * prod((x[..., i] for i in m.indices), start=one) for m in self.monomials], -1
        )

    def projected_width(self, features: int) -> int:
        """How many entries Uφ has; another number of features than the map reads is refused."""
        first = self.projection if self.projection is not None else (self.hidden or (None,))[0]
        if first is not None and first.shape[1] != features:
            raise Refusal(
                f"The kernel reads {first.shape[1]} features, not {features}: use "
                f"`features={first.shape[1]}`."
            )
        return features if self.projection is None else len(self.projection)

    def width(self, features: int) -> int:
        """How many entries u has."""
        if self.monomials is not None:
            return len(self.monomials)
        return len(self.hidden[1]) if self.hidden is not None else self.projected_width(features)

    def longest(self, max_norm: float) -> float:
        """A bound on |u(φ)| for |φ| ≤ max_norm."""
        norm = max_norm
        if self.projection is not None:
            norm *= float(torch.linalg.matrix_norm(self.projection, 2))
        if self.hidden is not None:
            weights, bias = self.hidden
            norm = float(torch.linalg.matrix_norm(weights, 2)) * norm + float(bias.norm())
        if self.monomials is not None:
            norm = sqrt(sum((m.weight * norm ** len(m.indices)) ** 2 for m in self.monomials))
        return norm


def check_monomials(degree: int, count: int) -> None:
    if degree > HIGHEST_DEGREE:
        raise Refusal(
            f"Products of features are formed up to degree {HIGHEST_DEGREE}, got {degree}: each further "
            "degree would take another layer and multiply the width."
        )
    if count > MOST_MONOMIALS:
        raise Refusal(
            f"{count:,} monomials would be needed, more than {MOST_MONOMIALS:,}: use fewer features or "
            "a lower degree."
        )
