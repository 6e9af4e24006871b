"""Functions that one ReLU layer computes without cancellation, over any dynamic range.

A convex falling function is interpolated as  f(x) ≈ c + Σ_i w_i·relu((x_i − x)/√x_i)  with w_i > 0:
the hinges open to the LEFT. Every term is positive, so the sum is as accurate as its terms. (Hinges
that open to the right need weights of both signs, and lose a factor (hi/lo)² in relative accuracy:
1/x over seven decades would have no correct digit left in float64.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, log

import numpy as np
import torch
from numpy.polynomial import Polynomial
from torch import Tensor

UNIT_RATIO = 4.5
"""Knot ratio for x^(−1/2): the interpolant is within 12 % of it."""

FINE_RATIO, COARSE_RATIO, KNOTS = 1.15, 1.2, 88
"""Knot ratios for the first guess of 1/x: as fine as 88 knots allow, within these two. The guess is
0.2 % to 0.4 % off, which the correction takes to round-off."""


NEAR_RATIO, SPREAD, LEAST_RATIO = 1.1, 1.6, 0.25
"""For 1/x from a number near x: the knot ratio of the table for that number, which leaves 0.1 %, the
growth of the spacing of knots away from x/near = 1, and the least x/near that is inverted."""


@dataclass(frozen=True)
class HingeTable:
    """c + Σ w_i·relu((x_i − x)/√x_i); constant outside [first knot, last knot].

    The root shares the range of magnitudes between the two factors, which float32 needs.
    """

    knots: np.ndarray
    weights: np.ndarray
    constant: float

    def __call__(self, x: Tensor) -> Tensor:
        knots, weights = torch.from_numpy(self.knots).to(x), torch.from_numpy(self.weights).to(x)
        hinges = torch.relu((knots - x[..., None]) / knots.sqrt())
        return self.constant + (hinges * weights).sum(-1)


def hinge_table(
    f: Callable[[np.ndarray], np.ndarray], lo: float, hi: float, ratio: float
) -> HingeTable:
    """Interpolates a convex falling positive f on [lo, hi], balanced to equal error either side."""
    n = max(1, ceil(log(hi / lo) / log(ratio)))
    knots = np.geomspace(lo, hi, n + 1)
    values = f(knots)
    inner = np.geomspace(knots[0], knots[1], 257)  # the relative error is the same in every cell
    chord = values[0] + (inner - knots[0]) * (values[1] - values[0]) / (knots[1] - knots[0])
    values = values * 2 / (1 + (chord / f(inner)).max())
    slopes = (values[:-1] - values[1:]) / np.diff(knots)
    weights = np.append(-slopes[0], np.append(slopes[:-1] - slopes[1:], slopes[-1]))
    return HingeTable(knots, weights * np.sqrt(knots), float(values[-1]))


@cache
def unit_table(lo: float, hi: float, power: float = 0.5) -> HingeTable:
    """x^(−power), roughly."""
    return hinge_table(lambda x: x**-power, lo, hi, UNIT_RATIO)


@dataclass(frozen=True)
class Reciprocal:
    """1/x to round-off: a table guess z, then z·(1 + a·e)(1 + b·e + c·e²)(1 + d·e + f·e²), e = 1 − xz.

    With |e| ≤ ε from the table, 1/x = z/(1 − e) needs a polynomial near 1/(1 − e). The best one of
    degree 5 leaves the residual T₆(e/ε)/T₆(1/ε) ≈ ε⁶/32, and it factors over the reals, so that two
    layers of triple products evaluate it.
    """

    table: HingeTable
    a: float
    b: float
    c: float
    d: float
    f: float

    def __call__(self, x: Tensor) -> Tensor:
        z = self.table(x)
        e = 1 - x * z
        return (
            z * (1 + self.a * e) * (1 + (self.b + self.c * e) * e) * (1 + (self.d + self.f * e) * e)
        )


def first_guess(lo: float, hi: float, ratio: float) -> tuple[HingeTable, float]:
    """A table of 1/x, and its relative error."""
    table = hinge_table(lambda x: 1 / x, lo, hi, ratio)
    found = table.knots[1] / table.knots[0]
    return table, float(1 - 2 / (1 + (1 + found) ** 2 / (4 * found)))


@dataclass(frozen=True)
class NearOne:
    """1/q ≈ q + Σ w·relu(slope·q + bias), for a quotient q that is most often close to 1.

    1/q = q + 2·(1 − q) + (1 − q)²/q. All hinges open away from 1, so that near 1 their sum is small and
    adds no more to q than the round-off of one sum.
    """

    slopes: np.ndarray
    biases: np.ndarray
    weights: np.ndarray


def near_one(radius: float, most: float) -> NearOne:
    """1/q for q in [LEAST_RATIO, most]: to round-off within `radius` below 1, elsewhere roughly."""
    spacing = 2.0**-26  # a chord of 1/q is off by spacing²/4 near 1
    dense = np.arange(1, int(np.ceil(radius / spacing)) + 1) * spacing
    slopes, biases, weights = [], [], []
    for sign, end, inner in ((-1.0, 1 - LEAST_RATIO, dense), (1.0, most - 1, dense[:1])):
        count = int(np.ceil(np.log(end / inner[-1]) / np.log(SPREAD)))
        away = np.concatenate([[0.0], inner, np.geomspace(inner[-1], end, count + 1)[1:]])
        values = away**2 / (1 + sign * away)
        steps = np.diff(values) / np.diff(away)
        # Beyond the end the sum continues as a constant: its slope there is that of q − 2.
        bends = np.diff(np.concatenate([[2 * sign], steps, [sign]]))
        slopes.append(np.full_like(away, sign))
        biases.append(-sign - away)
        weights.append(bends)
    return NearOne(*(np.concatenate(parts) for parts in (slopes, biases, weights)))


def reciprocal_ratio(lo: float, hi: float) -> float:
    """The ratio of the knots of a table of 1/x."""
    return float(min(max((hi / lo) ** (1 / KNOTS), FINE_RATIO), COARSE_RATIO))


@cache
def reciprocal_table(lo: float, hi: float, ratio: float | None = None) -> Reciprocal:
    """1/x on [lo, hi]; a coarser `ratio` of the knots than the compiler's makes its error visible."""
    table, error = first_guess(lo, hi, ratio or reciprocal_ratio(lo, hi))
    residual = Polynomial(np.polynomial.chebyshev.cheb2poly([0] * 6 + [1]))(
        Polynomial([0, 1 / error])
    )
    residual = residual / residual(1.0)
    # (1 − residual)/(1 − e): the numerator vanishes at e = 1, so running sums divide it. Its constant
    # term is 1 up to the residual itself and is taken as 1.
    quotient = Polynomial(np.cumsum((1 - residual).coef)[:6])
    roots = quotient.roots()
    real = roots[np.abs(roots.imag) < 1e-9].real
    upper = sorted(roots[roots.imag > 1e-9], key=lambda root: float(root.real))
    assert (len(real), len(upper)) == (1, 2), "the degree-5 correction has one real root"
    pairs = [(-2 * root.real / abs(root) ** 2, 1 / abs(root) ** 2) for root in upper]
    (b, c), (d, f) = pairs
    return Reciprocal(table, *(float(value) for value in (-1 / real[0], b, c, d, f)))
