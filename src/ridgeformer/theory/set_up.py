"""What a plain ReLU MLP errs by besides the interpolation of its products: round-off and set-up.

A layer has n intervals, and a fine square l layers. Of Q squares that are added to one channel,
n_t = Q(n − 1) + 10 terms are summed at most. Round-off is that of double precision, u = 2⁻⁵³.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, inf

from ridgeformer.theory.interpolation import Range, balance, product_error_bound
from ridgeformer.theory.round_off import UNIT, accumulated

DOUBLE = UNIT["float64"]

CLEAR = 1e-4
"""The largest error of 1 − xz for which the correction of a reciprocal is bounded."""


@dataclass(frozen=True)
class Layers:
    """The grid of some squares: n intervals in each of l layers, for Q squares in one channel."""

    intervals: int
    layers: int = 1
    squares: int = 2

    @property
    def finest(self) -> float:
        return float(self.intervals) ** self.layers

    @property
    def terms(self) -> int:
        """n_t = Q(n − 1) + 10"""
        return self.squares * (self.intervals - 1) + 10

    @property
    def round_off(self) -> float:
        """F, for which Σ c_q x_q² is rounded by at most F·u·Σ|c_q|m_q², where |x_q| ≤ m_q."""
        n, terms = self.intervals, self.terms
        if self.layers == 1:
            return 7.0 * terms + 220
        below = 1 + 4 / (n**2 - 1)
        return below * (7 * terms + 8 * n + 560) + 1.5 * (self.layers - 1) * terms


def square_error(x: Range, grid: Layers) -> float:
    """r²/4n^{2l} + F·u·m²: the error of x² in floating point, r the width of the range and m its end."""
    return (x[1] - x[0]) ** 2 / (4 * grid.finest**2) + grid.round_off * DOUBLE * largest(x) ** 2


def product_round_off(a: Range, b: Range, grid: Layers) -> float:
    """F·u·m²/2s with m = s·max|a| + max|b|, s = R_b/R_a: what the product of two squares is rounded by.

    If b is in [−B, B] and there is one layer, both squares have the same chords, which cancel in the weights,
    and ((1.5·n_t + 92)m + (2n_t + 20)R_b)·u·R_b/s is enough.
    """
    scale, width = balance(a, b), b[1] - b[0]
    m = scale * largest(a) + largest(b)
    if grid.layers == 1 and a[0] >= 0 and b[0] == -b[1]:
        units = (1.5 * grid.terms + 92) * m + (2 * grid.terms + 20) * width
        return units * DOUBLE * width / scale
    return grid.round_off * DOUBLE * m**2 / (2 * scale)


def product_error(a: Range, b: Range, grid: Layers) -> float:
    """E(a, b): the error of the product of two squares, interpolation and round-off."""
    return product_error_bound(a, b, grid.finest) + product_round_off(a, b, grid)


def logit_error(largest_logit: float, norms: float, features: int, off: float) -> float:
    """δ = 2E_n + f(4 + f)L + γ_{p+9}(1 + f)²L: how far a logit is off, relative to the sink's.

    `norms` is the error of n|u|², and features are held up to `off` = f of the longest.
    """
    size = (1 + off) ** 2 * largest_logit
    return 2 * norms + off * (4 + off) * largest_logit + accumulated(features + 9, DOUBLE) * size


def weight_error(logits: float, supports: int) -> float:
    """ω = (1 + γ_{4k+10})e^δ − 1: how far 1/D is off relatively, and the average of values up to 1."""
    sums = accumulated(4 * supports + 10, DOUBLE)
    return sums + (1 + sums) * expm1(logits) if logits < 1 else inf


def squared_reciprocal_error(
    most: float, weights: float, *, one: Layers, two: Layers, four: Layers
) -> float:
    """ρ: how far D = 1/w is off relatively, for 1 ≤ D ≤ D₁ = `most`, if all products are squares.

    ρ = 1.1(E(z, w) + ω + 4uD₁) + 4(E(z, e) + E(z, e²)) + 4E(e²) + 4(n_t + 7)u, if E(z, w) + ω + 4uD₁ is at most
    10⁻⁴. `one`, `two` and `four` are the grids for so many squares.
    """
    guess, small, square = (0.98, 1.02 * most), (-0.02, 0.02), (0.0, 4e-4)
    residual = product_error(guess, (1 / most, 1.0), two) + weights + 4 * DOUBLE * most
    if residual > CLEAR:
        return inf
    corrections = sum(
        max(product_error(guess, x, grid) for grid in (two, four)) for x in (small, square)
    )
    sums = 4 * (max(two.terms, four.terms) + 7) * DOUBLE
    return 1.1 * residual + 4 * corrections + 4 * square_error(small, one) + sums


def largest(x: Range) -> float:
    return max(abs(x[0]), abs(x[1]))
