"""Products with the binary digits of a number, and how many digits a promised error needs."""

from __future__ import annotations

from math import ceil, log2

from ridgeformer.theory.round_off import UNIT

LARGEST = 0.75
"""How large a number with digits may be in its unit; the rest is room for a shift and for round-off."""

MOST_DIGITS = 44
"""With more of them, round-off in the remainders would reach the ramps of the last digit."""


def unit_of_digits(largest: float) -> float:
    """The power of two U for which 0 < w ≤ `largest` has w/U ≤ ¾."""
    return float(2.0 ** ceil(log2(largest / LARGEST)))


def digit_error(digits: int) -> float:
    """2^{−M}(¼ + 2^{−M−7}): how far a number may be from what M digits make of it, in its unit."""
    return 2.0**-digits * (0.25 + 2.0 ** -(digits + 7))


def digit_product_bound(digits: int, unit: float) -> float:
    """U·(2^{−M}(¼ + 2^{−M−7}) + 32u), times |b|: the error of w·b from M digits of w/U in float64."""
    return unit * (digit_error(digits) + 32 * UNIT["float64"])


def digit_round_off_bound(
    digits: int, *, weights: float, least: float, alpha: float, b: float, step: float
) -> float:
    """ω(|b|/D₀ + |α|) + 32(M + 32)·u·(|b| + (1 + 2/η)|α|): what set-up and round-off add to one residual.

    ω = `weights` is how far 1/D ≤ 1/D₀ = 1/`least` is off relatively, and an average of values up to 1.
    The gates of the digits and all sums are for b = y − λα and iterates in the given ranges and a step of
    length η = `step`.
    """
    sums = 32 * (digits + 32) * UNIT["float64"] * (b + (1 + 2 / step) * alpha)
    return weights * (b / least + alpha) + sums


def digits_for(*, reach: float, unit: float, tolerance: float) -> int:
    """The fewest digits M ≥ 1 with C·U·2^{−M}(¼ + 2^{−M−7}) ≤ ε, hence at most log₂(CU/ε) or 1.

    C = `reach` is the factor from a product's error relative to b to the error of the prediction.
    """
    digits = 1
    while reach * unit * digit_error(digits) > tolerance:
        digits += 1
    return digits
