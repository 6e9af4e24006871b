"""The reciprocal of a scalar from a table and a polynomial."""

from __future__ import annotations

from math import acosh, cosh

from ridgeformer.types import Refusal


def reciprocal_error_bound(guess_error: float) -> float:
    """|x·q(x) − 1| ≤ 2/(T₆(1/ε) + 1), for q = z·p(1 − xz) with a guess z that is ε off, |1 − xz| ≤ ε.

    p is of degree 5 with p(0) = 1 and (1 − e)·p(e) = 1 − (T₆(e/ε) + 1)/(T₆(1/ε) + 1).
    """
    if not 0 < guess_error < 1:
        raise Refusal(
            f"A first guess must be off by more than 0 and less than 1, got {guess_error}."
        )
    return 2 / (cosh(6 * acosh(1 / guess_error)) + 1)
