"""The search for a candidate's numbers: λ, step size, kernel width and number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import scipy.optimize

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.trajectories import (
    HOPELESS,
    Choice,
    Evidence,
    Fit,
    choices,
    residuals,
)

FINE = tuple(np.arange(0.1, 0.85, 0.1))
STRETCHES = tuple(np.log([1.0, 1.25, 1.6, 2.0, 3.0, 5.0, 10.0, 40.0]))
STRIDING = STRETCHES[1::2]
RIDGES = tuple(np.log([0.7, 1.4]))
"""A search first tries multiples of the largest eigenvalue as the upper end of the interval, fewer of them for a longer
stride, and multiples of λ. Many steps depend so much on the former that the middle of its range is searched closely."""

BOUNDS = {"ridge": (-2.0, 2.0), "hi": (-0.7, 4.0), "lo": (-3.0, 3.0), "width": (-1.0, 1.0)}
"""How far the logarithm of each number may be moved."""


class Round(NamedTuple):
    """How a search goes on from what was tried."""

    hopeful: float
    """With what costs up to this factor more than the best."""
    lengths: int
    """With as many numbers of steps of a candidate."""
    evaluations: int
    """The steps of least squares for each."""
    offsets: tuple[float, ...]
    """Where it goes on for the product of both errors, it also begins with step sizes so far from the best."""


ROUNDS = (Round(20.0, 5, 6, (0.0,)), Round(3.0, 5, 20, (0.0, -0.15, 0.15)))
"""What the first settings cost says little of what is found with them, so that the first round is short and wide."""

ELSEWHERE = 0.2
"""Searches from two step sizes whose logarithms differ by more may end apart."""

REWEIGHED = 3
INSIDE = 1 - 1e-6
"""A search begins inside its bounds, by so little."""

TOO_FAR = 0.5
"""If the first settings of all candidates cost more than this, none of them is near, and the search ends."""

ROUND_OFF = 1e-12
MUCH_MORE, WORSE = 5.0, 1.1
EXPLAINED, NEARLY, NOISE = 1e-6, 0.05, 1e-3


def fit_all(
    evidence: Evidence,
    of: Sequence[Candidate],
    setting: Setting,
    steps: int,
    progress: Callable[[Sequence[Candidate]], Iterable[Candidate]] = iter,
) -> list[Fit]:
    """Every candidate, with the numbers that suit the subject best on the prompts that choose."""
    ends = search_all(evidence, of, setting, steps, progress)
    return [fit_at(evidence, one, setting, end) for one, end in zip(of, ends, strict=True)]


class End(NamedTuple):
    """Where the search for a candidate's numbers ended."""

    stride: int
    steps: int
    """The number of those that are looked for."""
    by: dict[str, float]
    """How far the logarithm of each free number was moved."""


def search_all(
    evidence: Evidence,
    of: Sequence[Candidate],
    setting: Setting,
    steps: int,
    progress: Callable[[Sequence[Candidate]], Iterable[Candidate]] = iter,
) -> list[End]:
    """Where the searches of all candidates end; `fit_at` makes a fit of each.

    All of them try a few settings. A search then goes on for those that may still turn out to be the best.
    """
    searches = [Search(evidence, candidate, setting, steps) for candidate in progress(of)]
    if min(search.cost for search in searches) <= TOO_FAR:
        go_on(searches)
    return [search.end for search in searches]


def fit_at(evidence: Evidence, candidate: Candidate, around: Setting, end: End) -> Fit:
    """The candidate as its search ended, scored on prompts that the search did not see."""
    at = start_of(evidence, candidate, around).moved(end.by)
    return choices(evidence, candidate, at, end.stride, [end.steps])[0].scored(evidence)


def start_of(evidence: Evidence, candidate: Candidate, around: Setting) -> Setting:
    """Where a candidate's search begins, given what all of them begin with."""
    return Setting.around(
        evidence.prompt, around.kernel, around.ridge, candidate.solver.precondition
    )


def go_on(searches: Sequence[Search]) -> None:
    """Searches from the best of what was tried, until a trajectory of several steps is found in full.

    Then only candidates with fewer free numbers are tried, which the one that was found may contain.
    """
    freest: int | None = None
    for one in ROUNDS:
        starts = sorted((s for search in searches for s in search.starts), key=lambda s: s.cost)
        limit, left = one.hopeful * starts[0].cost, {id(search): one.lengths for search in searches}
        for search, stride, steps, cost in starts:
            hopeful = cost <= limit and left[id(search)] > 0
            if hopeful and (freest is None or len(search.free) < freest):
                left[id(search)] -= 1
                search.minimise(stride, steps, one)
                if search.settled:
                    search.minimise(stride, steps, ROUNDS[-1])
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
        self.start = start_of(evidence, candidate, around)
        self.free = candidate.free(evidence.prompt, self.start)
        strides = (1,) if candidate.most_steps == 1 else (1, 2)
        self.tried: dict[int, list[Tried]] = {n: [] for n in strides}
        self.chosen: dict[int, Tried] = {}
        tuned = "hi" in self.free
        stretches, striding = (STRETCHES, STRIDING) if tuned else ((0.0,), (0.0,))
        tried = [
            *product((1,), stretches, (0.0,)),
            *product(strides[1:], striding, (0.0,)),
            *product((1,), FINE if tuned else (), (0.0,)),
            *product((1,), stretches[1:4] or stretches, RIDGES if "ridge" in self.free else ()),
        ]
        for stride, stretch, ridge in tried:
            steps_tried = range(1, self.most(stride) + 1)
            self.attempt(stride, {"hi": stretch, "ridge": ridge}, steps_tried)

    def most(self, stride: int) -> int:
        """The largest number of steps that is looked for."""
        most = self.candidate.most_steps
        return self.steps if most is None else most // stride

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
        """Whether a trajectory of several steps, or the one of a smoother, is in the layers, up to round-off, and ends
        in the prediction, up to noise."""
        best = self.chosen.get(1, self.best(1))
        few = best.steps <= 2 and not self.candidate.solver.smooths
        if few or best.inside >= EXPLAINED or best.cost >= NEARLY:
            return False
        found = self.at(1, best.by, [best.steps])[0]
        return found.systematic(self.evidence, self.evidence.split.choose) < NOISE

    def attempt(self, stride: int, by: dict[str, float], lasts: Sequence[int]) -> list[Tried]:
        """Tries a setting with each of these numbers of steps."""
        found = [Tried(c.cost, c.inside, by, len(c.layers)) for c in self.at(stride, by, lasts)]
        self.tried[stride] += found
        return found

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

    def minimise(self, stride: int, steps: int, how: Round) -> None:
        """Searches for the free numbers by least squares, from the best so far.

        Where that ends near, it goes on for the product of both errors, in which noise on predictions is a
        factor and does not pull at the numbers that the layers determine. The cost may not rise by much:
        steps that do nothing are easily found in the layers.
        """
        if not self.free:
            return
        for start in self.basins(stride, steps):
            self.descend(stride, start, how.evaluations)
        least = self.best(stride).cost
        limit = WORSE * least
        nearest = min(self.with_steps(stride, steps), key=lambda one: one.cost)
        if nearest.cost > limit or least >= NEARLY:
            return

        def goal(one: Tried) -> float:
            return product_of_errors(one) if one.cost <= limit else one.cost / limit

        chosen = min(self.with_steps(stride, steps), key=goal)
        for _ in range(REWEIGHED):
            # Where each part is weighed by its inverse, the sum has the least product as its minimum.
            parts = chosen.inside, chosen.cost - chosen.inside
            ended = self.descend(stride, chosen, how.evaluations, parts)
            for offset in how.offsets if "hi" in self.free else ():
                # Layers that tell the other numbers may be content with several step sizes.
                other = {**ended.by, "hi": nearest.by.get("hi", 0.0) + offset}
                start = self.attempt(stride, other, [steps])[0]
                self.descend(stride, start, how.evaluations, parts)
            before, chosen = chosen, min(self.with_steps(stride, steps), key=goal)
            if chosen is before:
                break
        # The layers tell λ and step size, whatever the number of steps: a neighbour may end nearer.
        self.attempt(stride, chosen.by, range(1, self.most(stride) + 1))
        self.chosen[stride] = min(self.tried[stride], key=goal)

    def with_steps(self, stride: int, steps: int) -> list[Tried]:
        return [one for one in self.tried[stride] if one.steps == steps]

    def basins(self, stride: int, steps: int) -> list[Tried]:
        """The best so far, and the best with quite another step size, which may lead elsewhere."""
        ordered = sorted(self.with_steps(stride, steps), key=lambda one: one.cost)
        first = ordered[0].by.get("hi", 0.0)
        others = (one for one in ordered if abs(one.by.get("hi", 0.0) - first) > ELSEWHERE)
        return [ordered[0], *islice(others, 1)]

    def descend(
        self, stride: int, start: Tried, most: int, parts: tuple[float, float] = (1.0, 1.0)
    ) -> Tried:
        """Least squares from a setting that was tried, with both parts of the cost in those units.

        Every step is read where it was there; where it ends, layers are chosen anew.
        """
        choice = self.at(stride, start.by, [start.steps])[0]
        scales = [max(part, ROUND_OFF) ** -0.5 for part in parts]

        def missed(x: np.ndarray) -> np.ndarray:
            moved = self.start.moved(dict(zip(self.free, x.tolist(), strict=True)))
            both = residuals(self.evidence, choice, moved)
            found = np.concatenate(
                [scale * part.numpy() for scale, part in zip(scales, both, strict=True)]
            )
            clipped: np.ndarray = np.clip(np.nan_to_num(found, nan=HOPELESS), -HOPELESS, HOPELESS)
            return clipped

        bounds = np.array([BOUNDS[name] for name in self.free]).T
        first = np.clip([start.by.get(name, 0.0) for name in self.free], *(bounds * INSIDE))
        ended = scipy.optimize.least_squares(
            missed, first, bounds=tuple(bounds), max_nfev=most, ftol=1e-4, xtol=1e-9, gtol=1e-15
        )
        by = dict(zip(self.free, ended.x.tolist(), strict=True))
        return self.attempt(stride, by, [start.steps])[0]

    @property
    def end(self) -> End:
        best = self.chosen.get(self.stride, self.best(self.stride))
        return End(self.stride, best.steps, best.by)


def product_of_errors(one: Tried) -> float:
    """The logarithm of the product of both parts of the cost, where round-off does not count."""
    parts = np.array([one.inside, max(one.cost - one.inside, 0.0)])
    return float(np.log(parts + ROUND_OFF).sum())
