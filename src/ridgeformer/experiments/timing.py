"""About how long an experiment takes, from figures that were measured and the speed of this machine now."""

from __future__ import annotations

from time import perf_counter

import torch

UNIT = 0.00105
"""Seconds that `one_unit` took where the figures of the studies were measured, on a machine that did nothing else."""


TRIAL = 0.25
"""Seconds that it takes to see how fast this machine is."""


def one_unit() -> float:
    """Seconds that many small operations take now, each too small for more than one thread: other work on this machine counts, as it will later."""
    x = torch.linspace(0, 1, 64, dtype=torch.float64)
    matrix = torch.exp(-((x[:, None] - x) ** 2))
    before = perf_counter()
    for _ in range(300):
        x = torch.softmax(matrix @ x, dim=0)
    return perf_counter() - before


def slowness() -> float:
    """How many times longer things take here and now than where the figures were measured.

    It is a mean over a quarter of a second, since other work takes time slices that are longer than a unit.
    """
    one_unit()  # The first one loads what the others have.
    before, count = perf_counter(), 0
    while perf_counter() - before < TRIAL:
        one_unit()
        count += 1
    return (perf_counter() - before) / count / UNIT


def in_words(seconds: float) -> str:
    """A duration as one says it: "10 seconds", "4 minutes", "2 hours"."""
    for unit, name in ((3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * unit:
            return f"{round(seconds / unit)} {name}s"
    return f"{max(5 * round(seconds / 5), 5)} seconds"
