"""Times that are compared are taken in turns: what slows the machine then slows both sides.

Each turn gives one ratio, and a result is the median over turns. It does not depend on what ran before.
Only a wait of threads for each other can slow one side alone, where other processes want the same cores:
ratios that are not about threads are taken with one.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Call = Callable[[], object]

SHORTEST = 0.03
"""A call that takes fewer seconds is repeated within its turn until it has taken so many."""


def seconds(call: Call, repeats: int = 1) -> float:
    """The time of a call, as a mean over some in a row."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def turns(*calls: Call, rounds: int = 7) -> list[list[float]]:
    """The times of each of the calls, turn by turn, after one turn to warm up."""
    repeats = [math.ceil(SHORTEST / max(seconds(call), 1e-6)) for call in calls]
    times = [[0.0] * len(calls) for _ in range(rounds)]
    for number, turn in enumerate(times):
        order = range(len(calls)) if number % 2 else reversed(range(len(calls)))
        for i in order:  # the first and the last are so by turns, too
            turn[i] = seconds(calls[i], repeats[i])
    return times


def ratio(call: Call, to: Call, rounds: int = 7) -> float:
    """How many times as long as another call this one takes."""
    return statistics.median(first / second for first, second in turns(call, to, rounds=rounds))


def fastest(call: Call, rounds: int = 5) -> float:
    """The time of a call that is compared with none: the shortest, after one to warm up."""
    return min(turn[0] for turn in turns(call, rounds=rounds))


@contextmanager
def threads(number: int) -> Iterator[None]:
    """PyTorch takes so many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
