"""measured/bound, and both sides of a statement."""

from __future__ import annotations

import numpy as np
from torch import Tensor

Values = np.ndarray | Tensor | float
"""A number, an array or a tensor."""


def ratios(measured: Values, bound: Values, floor: float) -> np.ndarray:
    """measured/bound wherever one of them is above what round-off alone may cost.

    A bound below that which is exceeded counts, so that none can pass by being too small.
    """
    measured, bound = np.broadcast_arrays(np.asarray(measured), np.asarray(bound))
    above = (bound > floor) | (measured > floor)
    quotients: np.ndarray = measured[above] / np.maximum(bound[above], max(floor, 1e-30))
    return quotients.ravel()


SIDES = ("at most", "at least")


def both_sides(measured: Values, lower: Values, upper: Values, allowance: Values) -> np.ndarray:
    """measured/upper and lower/measured, flat. The allowance is the certificate's, added to the bounds.

    Where a bound is infinite, or the lower one not above the allowance, it says nothing.
    """
    return np.concatenate(each_side(measured, lower, upper, allowance))


def each_side(
    measured: Values, lower: Values, upper: Values, allowance: Values
) -> tuple[np.ndarray, np.ndarray]:
    """Both parts of `both_sides`, one by one."""
    given = map(np.asarray, (measured, lower, upper, allowance))
    measured, lower, upper, allowance = np.broadcast_arrays(*given)
    below, above = lower > allowance, np.isfinite(upper)
    highest: np.ndarray = measured[above] / (upper + allowance)[above]
    return highest, (lower - allowance)[below] / np.maximum(measured[below], 1e-300)
