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
