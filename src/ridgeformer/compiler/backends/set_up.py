"""What set-up and round-off cost in a model whose products are squares of a plain ReLU MLP."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from ridgeformer import theory
from ridgeformer.compiler.backends.head_errors import feature_error
from ridgeformer.compiler.backends.multiply import fine_grid
from ridgeformer.compiler.domain import Domain
from ridgeformer.kernels import Logits


@dataclass(frozen=True)
class SetUp:
    """The errors of norms, attention and the reciprocal D, from the squares that compute them."""

    domain: Domain
    features: int
    """The number of features that come in."""
    outputs: int
    neurons: int
    """The number of neurons that fine squares of one cell may take in a layer."""

    @property
    def logits(self) -> Logits:
        logits = self.domain.kernel.logits()
        assert logits is not None
        return logits

    def grid(self, squares: int, in_channel: int) -> theory.Layers:
        """How finely so many squares are interpolated, of which some go to the same channel."""
        grid = fine_grid(self.neurons // squares)
        return theory.Layers(grid.intervals, grid.layers, in_channel)

    @property
    def logit(self) -> float:
        """δ: how far a logit is off, relative to that of the sink."""
        maps, most = self.logits.features, self.domain.max_norm
        width, longest = maps.width(self.features), maps.longest(most)
        each = theory.square_error((-longest, longest), self.grid(width, width))
        off = feature_error(maps, most, longest, theory.UNIT["float64"]) if longest else 0.0
        norms = self.logits.norm * width * each
        return theory.logit_error(self.domain.largest_logit, norms, width, off)

    @property
    def weights(self) -> float:
        """ω: how far 1/D is off relatively, and an average of values up to 1."""
        return theory.weight_error(self.logit, self.domain.max_supports)

    @property
    def division(self) -> float:
        """ρ: how far D is off, relative to the reciprocal of 1/D."""
        one, two, four = (self.grid(n, n) for n in (1, 2, 4))
        most = self.domain.row_sums[1]
        return theory.squared_reciprocal_error(most, self.weights, one=one, two=two, four=four)

    @property
    def mat_vec(self) -> float:
        """(1 + ρ)(1 + ω) − 1: how far D ⊙ o is off, relative to K|α|."""
        return self.division + (1 + self.division) * self.weights

    def inside(self, alpha: float) -> float:
        """ω̃√k·max K·‖α‖, ω̃ = (1 + ρ)(1 + ω) − 1: the error of K α = D ⊙ o, besides that of the product."""
        domain = self.domain
        largest = domain.kernel.range(domain.max_norm).most
        return self.mat_vec * sqrt(domain.max_supports) * largest * alpha

    def outside(self, alpha: float) -> float:
        """6ω̃D₁‖α‖, which over n intervals is the cost of factors outside their ranges; ∞ if they are far outside."""
        # Both are outside by less than 2/n of their widths for all grids that are used.
        return 6 * self.mat_vec * self.domain.row_sums[1] * alpha if self.mat_vec < 2e-5 else inf

    def reading(self, alpha: float) -> float:
        """The error of k(x)ᵀα at a query, where D ⊙ o is one fine product."""
        grid = self.grid(2 * self.outputs, 2)
        factors = (1.0, self.domain.row_sums[1]), (-alpha, alpha)
        product = theory.product_error(*factors, grid)
        return product + self.inside(alpha) + self.outside(alpha) / grid.intervals
