"""The reciprocal of a scalar from a table and a polynomial."""

from __future__ import annotations

from math import acosh, cosh

from ridgeformer.types import Refusal


def reciprocal_error_bound(guess_error: float) -> float:
    """|x·q(x) − 1| ≤ 2/(T₆(1/ε) + 1) for q = z·p(1 − xz), if the guess z has |1 − xz| ≤ ε.

    p has degree 5, with p(0) = 1 and (1 − e)·p(e) = 1 − (T₆(e/ε) + 1)/(T₆(1/ε) + 1).
    """
    if not 0 < guess_error < 1:
        raise Refusal(f"The error of the first guess must lie between 0 and 1, got {guess_error}.")
    return 2 / (cosh(6 * acosh(1 / guess_error)) + 1)


TRUNCATED = 3.3e-16
"""What the polynomial of every table leaves over, and the rounding of its coefficients to float64."""


def reciprocal_round_off_bound(unit: float) -> float:
    """|x·fl(1/x) − 1| ≤ δ + 8.6u, at most 12u in float32 and float64, δ being what the polynomial leaves over.

    It holds for reciprocals by a table that is off by at most 0.43 % and its correction of degree 5.
    """
    return TRUNCATED + 8.6 * unit
