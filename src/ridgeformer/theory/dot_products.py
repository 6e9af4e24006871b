"""Dot products from pairs of softmax heads: the accuracy of h pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, pi, prod, sqrt

import numpy as np

from ridgeformer.theory.round_off import UNIT, accumulated
from ridgeformer.types import Refusal

RECIPROCAL = 32
"""A reciprocal by a table and the correction of degree 5 is exact up to this many units of round-off."""


def extrapolation_weights(pairs: int) -> np.ndarray:
    """w_c = (1/c) Π_{d≠c} d²/(d² − c²): Σ w_c c = 1 and Σ w_c c^{2j+1} = 0 for j = 1 … pairs − 1."""
    numbers = range(1, pairs + 1)
    return np.array(
        [prod(d**2 / (d**2 - c**2) for d in numbers if d != c) / c for c in numbers], dtype=float
    )


@cache
def circles() -> tuple[np.ndarray, np.ndarray]:
    """Radii θ in (0, π/2), and B(θ), the mean of max(1, tan(θ|sin ω|)) over a circle."""
    theta = np.linspace(0, pi / 2, 1002)[1:-1]
    # The function increases on [0, π/2], so the mean over right endpoints is above its mean.
    right = np.sin(pi / 2 * np.arange(1, 2001) / 2000)
    return theta, np.maximum(1.0, np.tan(theta[:, None] * right)).mean(1)


def derivative_error_bound(scale: np.ndarray | float, pairs: int) -> np.ndarray:
    """|G_h(ε) − g′(0)| ≤ S·V · min_θ B(θ)/θ · Π_{c≤h} (cx)²/(θ² − (cx)²), x = εS, hx < θ < π/2.

    g(ε) = Σ e^{εs_i}v_i / Σ e^{εs_i} is what a softmax head returns, S and V are half the spread of
    the s_i and of the v_i, G_h(ε) = Σ_c w_c (g(cε) − g(−cε))/2ε is what h pairs of heads give, and
    B(θ) is the mean of max(1, tan(θ|sin ω|)) over a circle. The bound is returned for S·V = 1 and
    x = `scale`.
    """
    x = np.asarray(scale, dtype=float)[..., None]
    theta, height = circles()
    if not ((x > 0) & (pairs * x < theta[-1])).all():
        raise Refusal(f"{pairs} pairs of heads need a scale x with 0 < x < {pi / 2 / pairs:.3g}.")
    bound = np.where(theta > pairs * x, height / theta, np.inf)
    for c in range(1, pairs + 1):
        bound = bound * (c * x) ** 2 / np.abs(theta**2 - (c * x) ** 2)
    return np.asarray(bound.min(-1))


@dataclass(frozen=True)
class HeadPairErrors:
    """What a product with K costs that h pairs of softmax heads make, for k ≤ `supports` and |φ| ≤ R.

    It is off by at most n·S·V·E(εS) + ρ‖v‖₁ at a token, n = k + 1: S and V are half the spreads of its
    scores and of the values, both with the aggregator's 0, E is `derivative_error_bound` and ρ is
    `round_off`.
    """

    supports: int
    features: int
    """The number p of features whose dot products the heads form."""
    epsilon: float
    pairs: int
    max_norm: float
    """R, of these features."""
    unit: float = UNIT["float64"]
    feature_error: float = 0.0
    """How far the model's features are from exact ones, relative to R."""

    @property
    def tokens(self) -> int:
        return self.supports + 1

    @property
    def held(self) -> float:
        """R̂² with R̂ = (1 + f)R, which bounds the features that the model holds."""
        return (self.max_norm * (1 + self.feature_error)) ** 2

    @property
    def too_large(self) -> bool:
        """Whether ε leaves the range 0 < hεR̂² < π/2 in which there is a bound."""
        return not self.pairs * self.epsilon * self.held < circles()[0][-1]

    @cached_property
    def derivative(self) -> float:
        """E(εR̂²): R̂² is the largest half-spread of scores, and S·E(εS) rises with S."""
        return float(derivative_error_bound(self.epsilon * self.held, self.pairs))

    @cached_property
    def round_off(self) -> float:
        """ρ = (1 + z)·e^{2hεR̂²}·τ·Σ|w_c|/ε + R̂²·(z(2 + nE) + z' + f(2 + f))."""
        n, p, h, size = self.tokens, self.features, self.pairs, self.held
        logit = h * self.epsilon * size
        weights = exp(2 * accumulated(p + 5, self.unit) * logit)
        weights = weights * (1 + accumulated(3 * n + 5 * h + 12, self.unit)) - 1
        count = accumulated(RECIPROCAL + 8, self.unit)
        sums = accumulated(2 * n + p + RECIPROCAL + 14, self.unit)
        share = exp(2 * logit) * float(np.abs(extrapolation_weights(h)).sum()) / self.epsilon
        features = self.feature_error * (2 + self.feature_error)
        rest = count * (2 + n * self.derivative) + sums + features
        return (1 + count) * weights * share + size * rest

    @property
    def entry(self) -> float:
        """|(K̂v − Kv)_j| ≤ this times ‖v‖₂, at every token: n·R̂²·E/√2 + √k·ρ."""
        truncated = self.tokens * self.held * self.derivative / sqrt(2)
        return truncated + sqrt(self.supports) * self.round_off

    @property
    def operator(self) -> float:
        """‖K̂v − Kv‖₂ ≤ this times ‖v‖₂, over the supports: √k times `entry`."""
        return sqrt(self.supports) * self.entry

    @property
    def size(self) -> float:
        """What a product's two terms may reach in norm, relative to ‖v‖₂: kR̂²(3 + nE)."""
        return self.supports * self.held * (3 + self.tokens * self.derivative)


def dot_product_bound(
    scores: np.ndarray, values: np.ndarray, *, epsilon: float, pairs: int, max_norm: float, features: int
) -> np.ndarray:  # fmt: skip
    """|K̂v − Kv| ≤ n·S·V·E(εS) + ρ‖v‖₁, in float64.

    A token has `scores` s_i = ⟨φ, φ_i⟩ with the supports, whose `values` are v_i; both are of shape
    [..., k]. The aggregator adds a 0 to each, so that there are n = k + 1 tokens. All else is as in
    `HeadPairErrors`.
    """
    supports = scores.shape[-1]
    errors = HeadPairErrors(supports, features, epsilon, pairs, max_norm)
    spread, value = (
        (np.maximum(t.max(-1), 0) - np.minimum(t.min(-1), 0)) / 2 for t in (scores, values)
    )
    truncated = spread * value * derivative_error_bound(epsilon * spread, pairs)
    return np.asarray(errors.tokens * truncated + np.abs(values).sum(-1) * errors.round_off)


def best_scale(
    supports: int,
    features: int,
    pairs: int,
    max_norm: float,
    unit: float,
    feature_error: float = 0.0,
) -> HeadPairErrors:
    """The ε of 240 between 10⁻⁸ and nearly π/2h, over R², with the least bound on an operator's error."""
    scales = np.geomspace(1e-8, 1.5 / pairs, 240) / max_norm**2
    tried = (
        HeadPairErrors(supports, features, float(e), pairs, max_norm, unit, feature_error)
        for e in scales
    )
    return min(tried, key=lambda errors: errors.operator)
