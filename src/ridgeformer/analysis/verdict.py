"""The verdict: the candidates that the evidence cannot tell apart, a mixture, or none of these.

A candidate is **accepted** if its steps are in the layers (`interior` is small), if its last step is the subject's
prediction (`unexplained` is small), and if what is left of the prediction is noise rather than another way of
predicting (`systematic` is small). Of the accepted ones those stay that are not worse than another
by more than chance; the one with the fewest numbers that were fitted is named first, because a method with
more numbers may contain it, and of those the best. If no candidate is accepted, but the trajectories of
several are there, and a combination of their ends is the prediction, the subject is a **mixture**. The limits
come from models whose answer is known; a subject that keeps within none of them runs **none of these**.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, log
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.trajectories import NOTHING, Evidence, Fit
from ridgeformer.statistics import estimate_of

PERHAPS_THERE = 0.05
"""The trajectories that a combination is made of leave at most this between the ends."""

FEW = 2
"""As many steps say nothing of a method with as many numbers to fit: almost any method has them."""

FACTOR = 2.0
"""A candidate with one number more to fit must explain this many times as much to be told from a simpler one."""

Kind = Literal["solver", "mixture", "none"]


@dataclass(frozen=True)
class Limits:
    """What still counts as the candidate itself."""

    interior: float
    unexplained: float
    systematic: float


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    names: tuple[str, ...]
    """Those that cannot be told apart, or the parts of the mixture; the simplest first."""
    why: str

    @property
    def sentence(self) -> str:
        if self.kind == "none":
            return f"None of these: {self.why}."
        if self.kind == "mixture":
            return f"A mixture of {' and '.join(self.names)}: {self.why}."
        others = ""
        if self.names[1:]:
            others = f", which {' and '.join(self.names[1:])} cannot be told from"
        return f"It runs {self.names[0]}{others}: {self.why}."


@dataclass(frozen=True)
class Account:
    """What a verdict needs to know of a fit."""

    name: str
    steps: int
    freedom: int
    interior: float
    unexplained: float
    systematic: float
    ends: float
    """The errors with which the ends of the trajectory tell its steps, the unit of `interior`."""
    inside: tuple[float, ...]
    """The errors of its steps, for each prompt that scores."""
    away: tuple[float, ...]
    """The distance of its last step from the prediction, for each of these prompts."""

    @staticmethod
    def of(fit: Fit) -> Account:
        return Account(
            fit.candidate.name,
            fit.steps,
            fit.freedom,
            fit.interior,
            fit.unexplained,
            fit.systematic,
            float(fit.null.mean()),
            tuple(fit.errors.mean(0).tolist()),
            tuple(fit.away.tolist()),
        )

    @property
    def misfit(self) -> float:
        return (sum(self.inside) + sum(self.away)) / len(self.away)

    @property
    def product(self) -> float:
        """The logarithm of the product of both errors, by which candidates are compared."""
        means = torch.tensor([sum(self.inside), sum(self.away)]).double() / len(self.away)
        return float(product_of(means, self))


@dataclass(frozen=True)
class Findings:
    """What is known of a subject: an account of every candidate, and of their combination."""

    accounts: tuple[Account, ...]
    finite: bool
    """Whether its predictions and streams are finite numbers; else there is nothing to account for."""
    together: float
    """How much of the prediction a combination of the ends of those trajectories leaves that are there."""
    parts: tuple[str, ...]

    @staticmethod
    def of_nothing() -> Findings:
        """Of a subject that is not finite."""
        return Findings((), False, inf, ())

    @staticmethod
    def of(fits: Sequence[Fit], evidence: Evidence) -> Findings:
        several = [f for f in fits if f.interior <= PERHAPS_THERE and len(f.layers) > FEW]
        left = inf
        parts: list[Fit] = []
        if len(several) > 1:
            left, parts = combined(several, evidence)
        accounts = tuple(map(Account.of, fits))
        return Findings(accounts, True, left, tuple(f.candidate.name for f in parts))


def judge(found: Findings, limits: Limits, seed: int = 0) -> Verdict:
    """The verdict on a subject."""
    if not found.finite:
        return Verdict("none", (), "its predictions or its streams are not finite")
    accepted = [one for one in found.accounts if accepts(one, limits)]
    if accepted:
        alike = [one for one in accepted if not any(worse(one, other, seed) for other in accepted)]
        alike.sort(key=lambda one: (one.freedom, one.product))
        first = alike[0]
        return Verdict(
            "solver",
            tuple(one.name for one in alike),
            f"{first.steps} steps of it are found in the layers, of which {first.interior:.2g} is left "
            f"unexplained, and its last step is the prediction up to {first.unexplained:.2g} of the variance",
        )
    if found.together <= limits.systematic:
        return Verdict(
            "mixture",
            found.parts,
            f"each of these trajectories is there, and a combination of their ends leaves "
            f"{found.together:.2g} of the prediction's variance unexplained",
        )
    nearest = min(found.accounts, key=lambda one: one.misfit)
    return Verdict(
        "none",
        (),
        f"the nearest candidate, {nearest.name}, leaves {nearest.interior:.2g} of what is between the first "
        f"and the last layer unexplained (at most {limits.interior:.2g} may be), and "
        f"{nearest.systematic:.2g} of the prediction ({limits.systematic:.2g})",
    )


def accepts(one: Account, limits: Limits) -> bool:
    """Whether its trajectory is there, and the prediction is its last step, but for noise."""
    return max(beyond(one, limits).values()) <= 1 and tells(one)


def beyond(one: Account, limits: Limits) -> dict[str, float]:
    """By limit, how many times as large as allowed a candidate's value is."""
    return {
        field.name: getattr(one, field.name) / getattr(limits, field.name)
        for field in fields(limits)
    }


def tells(one: Account) -> bool:
    """Whether it has enough steps to be told from other methods."""
    return one.steps > FEW or one.freedom < FEW


def worse(one: Account, other: Account, seed: int) -> bool:
    """Whether the other is better by more than chance, over the same prompts.

    They are compared by the product of both errors, the steps' in units of what the ends tell of them, and the
    prediction's. For each number more that was fitted, the other must be better by a factor.
    """
    if one is other:
        return False
    errors = torch.tensor([one.inside, one.away, other.inside, other.away], dtype=torch.float64).T

    def ratio(means: Tensor) -> Tensor:
        return product_of(means[..., :2], one) - product_of(means[..., 2:], other)

    low = estimate_of(errors, ratio, seed).low
    return low is not None and low > log(FACTOR) * max(0, other.freedom - one.freedom)


def product_of(means: Float[Tensor, "*n 2"], one: Account) -> Float[Tensor, "*n"]:
    """The logarithm of the product of the means of both errors, where round-off does not count."""
    units = torch.tensor([max(one.ends, NOTHING), 1.0], dtype=torch.float64)
    found: Tensor = (means / units + NOTHING).log().sum(-1)
    return found


def combined(fits: Sequence[Fit], evidence: Evidence) -> tuple[float, list[Fit]]:
    """How much of the prediction a combination of the candidates' ends leaves, and those with a part in it.

    The weights are fitted on the prompts that fit, and the rest is measured on those that score.
    """
    ends = torch.stack(
        [
            f.candidate.signals(evidence.prompt, f.setting, f.steps)["predictions"][1][-1]
            for f in fits
        ],
        dim=-1,
    )
    fitted, scored = evidence.split.fit, evidence.split.score
    wanted = evidence.predictions
    weights = torch.linalg.lstsq(
        ends[fitted].flatten(0, -2), wanted[fitted].flatten()[:, None]
    ).solution[:, 0]
    rest = wanted[scored] - ends[scored] @ weights
    left = float(rest.square().mean() / wanted[scored].square().mean())
    share = weights.abs() / weights.abs().sum()
    return left, [f for f, part in zip(fits, share.tolist(), strict=True) if part > 0.1]
