"""The search for a candidate's numbers: λ, step size, kernel width and number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.optimize

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.trajectories import HOPELESS, Choice, Evidence, Fit, choices

FIRST_STRETCHES = tuple(np.log([1.0, 1.25, 1.6, 2.0, 3.0, 10.0, 40.0]))
FIRST_RIDGES = tuple(np.log([0.7, 1.0, 1.4]))
"""A search first tries these multiples of the largest eigenvalue as the upper end of the interval, and of λ."""

EVALUATIONS = 35
"""A search tries so many settings for each number that is free."""

LENGTHS = 4
"""It does so for as many numbers of steps."""

MUCH_MORE, EXPLAINED, NEARLY = 5.0, 1e-5, 0.05
AT_LEAST, HOPEFUL = 3, 30.0
"""It goes on for at least so many candidates, and for all whose cost is within this factor of the least."""


def fit_all(
    evidence: Evidence,
    of: Sequence[Candidate],
    setting: Setting,
    steps: int,
    progress: Callable[[Sequence[Candidate]], Iterable[Candidate]] = iter,
) -> list[Fit]:
    """Every candidate, with the numbers that suit the subject best on the prompts that choose.

    All of them try a few settings. A search then goes on for those that may still turn out to be the best,
    until a trajectory of several steps is found that is there in full.
    """
    searches = [Search(evidence, candidate, setting, steps) for candidate in progress(of)]
    hopeful = sorted(searches, key=lambda search: search.cost)
    limit = HOPEFUL * hopeful[0].cost
    for rank, search in enumerate(hopeful):
        if search.cost > limit and rank >= AT_LEAST:
            break
        search.go_on()
        if search.settled:
            break
    return [search.fit() for search in searches]


class Tried(NamedTuple):
    cost: float
    inside: float
    by: dict[str, float]
    steps: int


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
        strides = (1, 2) if candidate.most_steps is None else (1,)
        self.tried: dict[int, list[Tried]] = {n: [] for n in strides}
        stretches = FIRST_STRETCHES if "hi" in self.free else (0.0,)
        ridges = FIRST_RIDGES if "ridge" in self.free else (0.0,)
        every = range(1, (candidate.most_steps or steps) + 1)
        for stride, stretch, ridge in product(strides, stretches, ridges):
            self.attempt(stride, {"hi": stretch, "ridge": ridge}, every)

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
        best = self.best(1)
        return best.steps > 2 and best.inside < EXPLAINED and best.cost < NEARLY

    def attempt(self, stride: int, by: dict[str, float], lasts: Sequence[int]) -> float:
        """Tries a setting with each of these numbers of steps; the least cost."""
        found = self.at(stride, by, lasts)
        self.tried[stride] += [Tried(c.cost, c.inside, by, len(c.layers)) for c in found]
        return min(c.cost for c in found)

    def at(self, stride: int, by: Mapping[str, float], lasts: Sequence[int]) -> list[Choice]:
        return choices(self.evidence, self.candidate, self.start.moved(by), stride, lasts)

    def go_on(self) -> None:
        """Searches with the numbers of steps that look best so far.

        The search ends with the first that explains everything, and a stride of 1 comes first.
        """
        for stride in self.tried:
            costs: dict[int, float] = {}
            for one in self.tried[stride]:
                costs[one.steps] = min(one.cost, costs.get(one.steps, HOPELESS))
            for steps in sorted(costs, key=lambda n: costs[n])[:LENGTHS]:
                self.minimise(stride, steps)
                if self.settled:
                    return

    def minimise(self, stride: int, steps: int) -> None:
        """Nelder and Mead's search for the free numbers, from the best so far."""
        names = self.free
        if not names:
            return
        first = min((one for one in self.tried[stride] if one.steps == steps), key=lambda o: o.cost)
        start = np.array([first.by.get(name, 0.0) for name in names])
        simplex = start + 0.3 * np.vstack([np.zeros(len(names)), np.eye(len(names))])
        scipy.optimize.minimize(
            lambda x: self.attempt(stride, dict(zip(names, x.tolist(), strict=True)), [steps]),
            start,
            method="Nelder-Mead",
            options={
                "maxfev": EVALUATIONS * len(names),
                "xatol": 1e-5,
                "fatol": 1e-10,
                "initial_simplex": simplex,
            },
        )

    def fit(self) -> Fit:
        best = self.best(self.stride)
        return self.at(self.stride, best.by, [best.steps])[0].scored(self.evidence)
