"""Products from interpolated squares, and how wide an MLP must be for a promised error."""

from __future__ import annotations

from math import ceil, sqrt

Range = tuple[float, float]

NARROWEST = 1e-6
"""The width of a range of numbers, relative to the largest of them, that counts at least."""


def balance(a: Range, b: Range) -> float:
    """The s for which s·a and b have ranges of equal width, which minimises the product's error.

    A range much narrower than a is large counts as a little wider, as round-off could leave it.
    """
    width = max(a[1] - a[0], NARROWEST * max(map(abs, a)), 1e-300)
    return max(b[1] - b[0], 1e-300) / width


def product_error_bound(a: Range, b: Range, intervals: float) -> float:
    """|a·b − its interpolant| ≤ R_a R_b / 4n², for a and b in ranges of widths R_a and R_b.

    The product is a·b = ((s·a + b)² − (s·a − b)²)/4s with s = R_b/R_a, where each square is
    interpolated at n + 1 equidistant knots. l layers with n intervals each count as n^l intervals.
    """
    scale = balance(a, b)
    h = (scale * (a[1] - a[0]) + (b[1] - b[0])) / intervals
    return h**2 / 4 / (4 * scale)  # both errors are in [0, h²/4], so they differ by at most h²/4


def interpolation_intervals(a: Range, b: Range, *, reach: float, tolerance: float) -> int:
    """n = ⌈√(C·R_a R_b / 4ε)⌉ intervals keep the error of a prediction below ε.

    C = `reach` is the factor from the error of the product to that of the prediction.
    """
    return max(1, ceil(sqrt(reach * product_error_bound(a, b, 1.0) / tolerance)))


def interpolated_prediction_bound(
    once: float, *, spread: float, query: float, response: float, direct: float = 0.0
) -> float:
    """|f̂_T(x) − f_T(x)| ≤ (√k(x,x)·√(kP_max)·Σ_{s<T} max_σ √(σ − λ')|R_{T,s}(σ)| + d)·e.

    e = `once` bounds the error of one product, which is made at every support in every step.
    `spread` is √(k·P_max), `query` is √k(x,x), `response` is the sum (with λ' = λ for P = I, else
    0), and d = `direct` says how often the query itself reads the product.
    """
    return (query * spread * response + direct) * once
