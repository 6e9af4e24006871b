"""Calibration: limits from models whose answer is known, and how often verdicts with them are right on others.

Limits are chosen on cases of one world, as those with the lowest error rates. All rates are of cases from the other world,
which have other shapes, spectra, λ, kernels and numbers of steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from ridgeformer.analysis.verdict import Account, Findings, Limits, Verdict, accepts, beyond, judge
from ridgeformer.experiments.identification.calibration import Calibration, Rate
from ridgeformer.experiments.identification.cases import (
    CONTROLS,
    PLANTED,
    Case,
    Treatment,
    World,
    spread_of_weights,
)

INTERIORS = np.logspace(-4, -1, 13).tolist()
UNEXPLAINED = np.logspace(-1.9, -1, 10).tolist()
SYSTEMATIC = np.logspace(-6, -1.5, 19).tolist()
"""The limits that are tried."""

ENOUGH = 0.95


class Size(NamedTuple):
    """How many models there are of each answer."""

    known: int
    known_controls: int
    clean: int
    noise: int
    others: int
    controls: int


FULL = Size(known=3, known_controls=8, clean=13, noise=7, others=2, controls=10)
FAST = Size(known=1, known_controls=1, clean=1, noise=1, others=0, controls=1)


@dataclass(frozen=True)
class Judged:
    """A case, what was found, and the verdict on it with these limits."""

    case: Case
    found: Findings
    verdict: Verdict
    limits: Limits

    @property
    def label(self) -> str:
        """The first candidate of the set, or mixture, or none."""
        return self.verdict.names[0] if self.verdict.kind == "solver" else self.verdict.kind

    @property
    def right(self) -> bool:
        """A control must not be called a solver; a model must be called what it is."""
        if self.case.is_control:
            return self.verdict.kind != "solver"
        return self.label == self.case.answer

    @property
    def account(self) -> Account | None:
        """Of the candidate that is right; of a control, of the one that comes nearest to being accepted."""
        if self.case.is_control:
            return min(
                self.found.accounts,
                key=lambda one: max(beyond(one, self.limits).values()),
                default=None,
            )
        return account_of_answer(self.case, self.found)

    @property
    def covered(self) -> bool:
        """Whether the answer is among those that cannot be told apart."""
        return self.verdict.kind == "solver" and self.case.answer in self.verdict.names


def cases_of(size: Size, seed: int) -> list[Case]:
    """The cases of a calibration, with another seed for each case of an answer."""
    plan: list[tuple[World, Treatment, Sequence[str], int]] = [
        ("known", "clean", PLANTED, size.known),
        ("known", "noise", PLANTED, size.known),
        ("known", "clean", CONTROLS, size.known_controls),
        ("held out", "clean", PLANTED, size.clean),
        ("held out", "noise", PLANTED, size.noise),
        ("held out", "weights", PLANTED, size.others),
        ("held out", "merged", PLANTED, size.others),
        ("held out", "idle", PLANTED, size.others),
        ("held out", "clean", CONTROLS, size.controls),
    ]
    return [
        Case(answer, 1000 * seed + number, treatment, world)
        for world, treatment, answers, count in plan
        for number in range(count)
        for answer in answers
    ]


def calibrated(
    cases: Sequence[Case], found: Sequence[Findings], seed: int
) -> tuple[Calibration, list[Judged]]:
    """Limits from the known cases, and the verdicts with them on those that were held out."""
    measured = list(zip(cases, found, strict=True))
    limits = choose([(c, f) for c, f in measured if c.world == "known"])
    judged = [
        Judged(c, f, judge(f, limits, seed), limits) for c, f in measured if c.world == "held out"
    ]
    return (
        Calibration(
            limits,
            confusion=confusion(judged),
            error_rates=rates(judged),
            resolution=resolution(judged),
            seed=seed,
            cases=len(judged),
        ),
        judged,
    )


def choose(known: Sequence[tuple[Case, Findings]]) -> Limits:
    """The limits with the least sum of both error rates, of solvers that are missed and of controls that are
    taken for one; of several such, those nearest to the middle of their ranges."""
    right = [account_of_answer(c, f) for c, f in known if not c.is_control]
    wrong = [f.accounts for c, f in known if c.is_control]

    def errors(limits: Limits) -> float:
        missed = sum(one is None or not accepts(one, limits) for one in right)
        taken = sum(any(accepts(one, limits) for one in accounts) for accounts in wrong)
        return missed / len(right) + taken / len(wrong)

    tried = [Limits(*values) for values in product(INTERIORS, UNEXPLAINED, SYSTEMATIC)]
    counts = [errors(limits) for limits in tried]
    least = min(counts)
    best = [limits for limits, count in zip(tried, counts, strict=True) if count == least]
    logs = np.log([astuple(limits) for limits in best])
    middle = (logs.min(0) + logs.max(0)) / 2
    # The middle itself need not be among the best, which may lie around it.
    return best[int(np.square(logs - middle).sum(1).argmin())]


def account_of_answer(case: Case, found: Findings) -> Account | None:
    """What was found of the answer that is right; None if it was not even a candidate."""
    return next((one for one in found.accounts if one.name == case.answer), None)


def confusion(judged: Sequence[Judged]) -> dict[str, dict[str, dict[str, int]]]:
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for one in judged:
        treatment = "controls" if one.case.is_control else one.case.treatment
        row = counts.setdefault(treatment, {}).setdefault(one.case.answer, {})
        row[one.label] = row.get(one.label, 0) + 1
    return counts


def rates(judged: Sequence[Judged]) -> dict[str, Rate]:
    """How often verdicts are wrong, by kind of error."""
    clean, noise, weights = (
        [j for j in judged if not j.case.is_control and j.case.treatment == treatment]
        for treatment in ("clean", "noise", "weights")
    )
    layers = [j for j in judged if j.case.treatment in ("merged", "idle")]
    controls = [j for j in judged if j.case.is_control]
    found = {
        "another family": [not j.right for j in clean],
        "another family, 1 % noise on predictions": [not j.right for j in noise],
        "another family, weights moved": [not j.right for j in weights],
        "another family, layers merged or idle": [not j.right for j in layers],
        "the truth not in the set": [not j.covered for j in clean],
        "the truth not in the set, 1 % noise": [not j.covered for j in noise],
        "none of these, for a solver": [j.verdict.kind == "none" for j in clean],
        "a control taken for a solver": [not j.right for j in controls],
    }
    return {name: Rate(sum(wrong), len(wrong)) for name, wrong in found.items() if wrong}


def resolution(judged: Sequence[Judged]) -> Mapping[str, float]:
    """For each family, up to which spread of factors on all weights at least `ENOUGH` of its verdicts are right; a
    family that is not recognised at the smallest spread is left out."""
    reached: dict[str, float] = {}
    moved = [one for one in judged if one.case.treatment == "weights"]
    for answer in dict.fromkeys(one.case.answer for one in moved):
        ordered = sorted(
            (spread_of_weights(one.case.seed), one.right)
            for one in moved
            if one.case.answer == answer
        )
        for n, (spread, _) in enumerate(ordered, 1):
            if sum(right for _, right in ordered[:n]) >= ENOUGH * n:
                reached[answer] = spread
    return reached
