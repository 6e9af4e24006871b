"""Dot products from pairs of softmax heads: the accuracy of h pairs."""

from __future__ import annotations

from functools import cache
from math import pi, prod

import numpy as np

from ridgeformer.theory.round_off import UNIT
from ridgeformer.types import Refusal


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


def dot_product_bound(
    scores: np.ndarray, values: np.ndarray, *, epsilon: float, pairs: int, max_norm: float, features: int
) -> np.ndarray:  # fmt: skip
    """|K̂v − Kv| ≤ n(S·V·E(εS) + V₀·u·((4n + 2(p+4)hεR² + 4h + 16)·Σ|w_c|/ε + (n + p + 8)·R²)).

    A token has `scores` s_i = ⟨φ, φ_i⟩ with the supports, whose `values` are v_i; both are of shape
    [..., k]. The aggregator adds a 0 to each, so that there are n = k + 1 tokens. S and V are half
    the spreads of scores and values, E is `derivative_error_bound`, V₀ = max|v_i|, R is the largest
    |φ|, p is the number of `features`, h the number of `pairs`, and u = 2⁻⁵³. The second term is
    round-off.
    """
    n = scores.shape[-1] + 1
    spread, value = (
        (np.maximum(t.max(-1), 0) - np.minimum(t.min(-1), 0)) / 2 for t in (scores, values)
    )
    share = np.abs(extrapolation_weights(pairs)).sum() / epsilon
    logit = pairs * epsilon * max_norm**2
    rounds = (4 * n + 2 * (features + 4) * logit + 4 * pairs + 16) * share
    rounds = UNIT["float64"] * (rounds + (n + features + 8) * max_norm**2)
    error = spread * value * derivative_error_bound(epsilon * spread, pairs)
    return np.asarray(n * (error + np.abs(values).max(-1) * rounds))
