"""The search for a candidate's numbers: λ, step size, kernel width and number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.optimize

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.trajectories import (
    HOPELESS,
    NOTHING,
    Choice,
    Evidence,
    Fit,
    choices,
)

FIRST_STRETCHES = tuple(np.log([1.0, 1.25, 1.6, 2.0, 3.0, 10.0, 40.0]))
FIRST_RIDGES = tuple(np.log([0.7, 1.0, 1.4]))
"""A search first tries these multiples of the largest eigenvalue as the upper end of the interval, and of λ."""

EVALUATIONS = 35
"""A search tries so many settings for each number that is free."""

TOO_FAR = 0.5
"""If the first settings of all candidates cost more than this, none of them is near, and the search ends."""

HOPEFUL, LENGTHS = 30.0, 4
"""It goes on with as many numbers of steps of each candidate, if their cost is within this factor of the least."""

MUCH_MORE, EXPLAINED, NEARLY, WORSE = 5.0, 1e-6, 0.05, 1.5


def fit_all(
    evidence: Evidence,
    of: Sequence[Candidate],
    setting: Setting,
    steps: int,
    progress: Callable[[Sequence[Candidate]], Iterable[Candidate]] = iter,
) -> list[Fit]:
    """Every candidate, with the numbers that suit the subject best on the prompts that choose.

    All of them try a few settings. A search then goes on for those that may still turn out to be the best.
    """
    searches = [Search(evidence, candidate, setting, steps) for candidate in progress(of)]
    if min(search.cost for search in searches) <= TOO_FAR:
        go_on(searches)
    return [search.fit() for search in searches]


def go_on(searches: Sequence[Search]) -> None:
    """Searches from the best of what was tried, until a trajectory of several steps is found in full.

    Then only candidates with fewer free numbers are tried, which the one that was found may contain.
    """
    starts = sorted((start for search in searches for start in search.starts), key=lambda s: s.cost)
    limit, freest = HOPEFUL * starts[0].cost, None
    left = {id(search): LENGTHS for search in searches}
    for search, stride, length, cost in starts:
        hopeful = cost <= limit and left[id(search)] > 0
        if hopeful and (freest is None or len(search.free) < freest):
            left[id(search)] -= 1
            search.minimise(stride, length)
            if search.settled:
                freest = len(search.free)


class Tried(NamedTuple):
    cost: float
    inside: float
    by: dict[str, float]
    steps: int


class Start(NamedTuple):
    """Where a search may go on: the least cost of a candidate with that number of steps; a longer stride must be
    much better to come first."""

    search: Search
    stride: int
    steps: int
    cost: float


class Search:
    """The settings of one candidate that were tried, by stride, and their costs."""

    def __init__(
        self, evidence: Evidence, candidate: Candidate, around: Setting, steps: int
    ) -> None:
        self.evidence, self.candidate, self.steps = evidence, candidate, steps
        self.start = Setting.around(
            evidence.prompt, around.kernel, around.ridge, candidate.solver.precondition
        )
        self.free = candidate.free(evidence.prompt, self.start)
        strides = (1,) if candidate.most_steps == 1 else (1, 2)
        self.tried: dict[int, list[Tried]] = {n: [] for n in strides}
        self.chosen: dict[int, Tried] = {}
        stretches = FIRST_STRETCHES if "hi" in self.free else (0.0,)
        ridges = FIRST_RIDGES if "ridge" in self.free else (0.0,)
        for stride, stretch, ridge in product(strides, stretches, ridges):
            most = steps if candidate.most_steps is None else candidate.most_steps // stride
            self.attempt(stride, {"hi": stretch, "ridge": ridge}, range(1, most + 1))

    def best(self, stride: int) -> Tried:
        return min(self.tried[stride], key=lambda one: one.cost)

    @property
    def stride(self) -> int:
        """A longer stride asks less of the subject, and is taken only if it explains much more."""
        return min(self.tried, key=lambda n: self.best(n).cost * (1 if n == 1 else MUCH_MORE))

    @property
    def cost(self) -> float:
        return self.best(self.stride).cost

    @property
    def settled(self) -> bool:
        """Whether a trajectory of several steps is in the layers, up to round-off, and ends near the
        prediction."""
        best = self.chosen.get(1, self.best(1))
        return best.steps > 2 and best.inside < EXPLAINED and best.cost < NEARLY

    def attempt(self, stride: int, by: dict[str, float], lasts: Sequence[int]) -> None:
        """Tries a setting with each of these numbers of steps."""
        found = self.at(stride, by, lasts)
        self.tried[stride] += [Tried(c.cost, c.inside, by, len(c.layers)) for c in found]

    def at(self, stride: int, by: Mapping[str, float], lasts: Sequence[int]) -> list[Choice]:
        return choices(self.evidence, self.candidate, self.start.moved(by), stride, lasts)

    @property
    def starts(self) -> list[Start]:
        costs: dict[tuple[int, int], float] = {}
        for stride, tried in self.tried.items():
            for one in tried:
                key = stride, one.steps
                costs[key] = min(one.cost, costs.get(key, HOPELESS))
        return [
            Start(self, stride, steps, cost if stride == 1 else MUCH_MORE * cost)
            for (stride, steps), cost in costs.items()
        ]

    def minimise(self, stride: int, steps: int) -> None:
        """Nelder and Mead's search for the free numbers, from the best so far.

        Where it ends near, it goes on for the product of both errors, in which noise on predictions is a
        factor and does not pull at the numbers that the layers determine. The cost may not rise by much:
        steps that do nothing are easily found in the layers.
        """
        if not self.free:
            return
        here = [one for one in self.tried[stride] if one.steps == steps]
        self.descend(stride, steps, min(here, key=lambda one: one.cost).by, 0.3, lambda c: c.cost)
        best = self.best(stride)
        if best.steps == steps and best.cost < NEARLY:
            limit = WORSE * best.cost

            def goal(one: Tried) -> float:
                return product_of_errors(one) if one.cost <= limit else one.cost / limit

            self.descend(stride, steps, best.by, 0.03, goal)
            here = [one for one in self.tried[stride] if one.steps == steps]
            self.chosen[stride] = min(here, key=goal)

    def descend(
        self,
        stride: int,
        steps: int,
        start: Mapping[str, float],
        reach: float,
        goal: Callable[[Tried], float],
    ) -> None:
        first = np.array([start.get(name, 0.0) for name in self.free])

        def at(x: np.ndarray) -> float:
            self.attempt(stride, dict(zip(self.free, x.tolist(), strict=True)), [steps])
            return goal(self.tried[stride][-1])

        scipy.optimize.minimize(
            at,
            first,
            method="Nelder-Mead",
            options={
                "maxfev": EVALUATIONS * len(first),
                "xatol": 1e-5,
                "fatol": 1e-10,
                "initial_simplex": first
                + reach * np.vstack([np.zeros(len(first)), np.eye(len(first))]),
            },
        )

    def fit(self) -> Fit:
        best = self.chosen.get(self.stride, self.best(self.stride))
        return self.at(self.stride, best.by, [best.steps])[0].scored(self.evidence)


def product_of_errors(one: Tried) -> float:
    """The logarithm of the product of both parts of the cost, where round-off does not count."""
    return float(np.log(one.inside + NOTHING) + np.log(max(one.cost - one.inside, 0.0) + NOTHING))
