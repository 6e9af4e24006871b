"""A monotone alignment of steps with layers: a later step is read from the same layer or a later one."""

from __future__ import annotations

import numpy as np


def align(cost: np.ndarray) -> list[int]:
    """For each step a layer, never earlier than that of the step before, so that the sum of costs is least.

    `cost` is [layers, steps]. Of equally good alignments the one with the earliest layers is taken.
    """
    total = cost[:, 0]
    before: list[np.ndarray] = []
    for step in range(1, cost.shape[1]):
        best = np.minimum.accumulate(total)
        before.append(np.searchsorted(-best, -best, side="left"))  # where the minimum was reached
        total = best + cost[:, step]
    path = [int(np.argmin(total))]
    for chosen in reversed(before):
        path.append(int(chosen[path[-1]]))
    return path[::-1]
