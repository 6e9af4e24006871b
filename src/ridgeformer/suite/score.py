"""Scores of a tool's answers, by case and by group of cases.

**Subspaces.** Two subspaces with orthonormal bases U and V have Σcos²θ = ‖UᵀV‖² over their principal angles θ. Over
the dimension of the claim this is a precision, over that of the truth a recall, and their harmonic mean is the
similarity: 1 only for the same subspace, and next to nothing for the whole stream. A claim at a site that does not
hold the state has similarity 0. A case has the harmonic mean of the similarities' sum over the number of claims and
over the number of states; claims about quantities that are stored in no one place do not count.

**Mat-vec heads.** Matthews' correlation of the heads that are named with those that are right, over all heads of the
model, and at least 0: all heads have 0, as has no head, and chance has about 0 however many are right. A model all of
whose heads are right asks nothing.

**Solver.** 1 over the number of solvers that are named, if the right one is among them; names of one and the same
iteration count once.

**Interventions.** Of the effect that an answer must have, the part that a prediction explains:
1 − ‖prediction − answer‖²/‖unchanged − answer‖², and at least 0.

**Controls** have nothing to find: 1 for nothing claimed, no head named, or none as the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from ridgeformer.statistics import Estimate, estimate
from ridgeformer.suite.reading import StoredCase, Suite
from ridgeformer.suite.states import key_of
from ridgeformer.suite.submission import Answer, Claim

GROUPS: Mapping[str, tuple[str, ...]] = {
    "channels": ("channels",),
    "rotated": ("rotated",),
    "controls": ("trained", "untrained", "shuffled"),
}
"""The columns of the table, and the groups of cases in them."""

ROWS = {
    "subspaces": "subspaces",
    "directions": "subspaces, any site",
    "matvec": "mat-vec heads",
    "solver": "solver",
    "interventions": "interventions",
}
"""What is scored, and its name in the table."""


def similarity(claimed: Tensor, true: Tensor) -> float:
    """The harmonic mean of precision and recall of a subspace; both bases are orthonormal."""
    shared = float((claimed.mT @ true.to(claimed)).square().sum())
    return 2 * shared / (claimed.shape[1] + true.shape[1])


def harmonic(found: float, claimed: int, true: int) -> float:
    """The harmonic mean of found/claimed and found/true."""
    return 2 * found / (claimed + true) if found else 0.0


def score_subspaces(case: StoredCase, claims: tuple[Claim, ...]) -> dict[str, Any]:
    """Scores of the claims; null where there is nothing to find and nothing wrong is claimed."""
    places = {key_of(place["state"], place["step"]): place for place in case.labels["states"]}
    ignored = set(case.labels["not scored"])
    counted = [claim for claim in claims if claim.key in places or claim.state not in ignored]
    each, anywhere = dict.fromkeys(places, 0.0), dict.fromkeys(places, 0.0)
    for claim in counted:
        if claim.key in places:
            place = places[claim.key]
            alike = similarity(claim.basis, case.subspaces[place["basis"]])
            anywhere[claim.key] = alike
            each[claim.key] = alike if claim.site in place["sites"] else 0.0
    nothing = not places and not counted
    control = case.labels["group"] in GROUPS["controls"]

    def total(found: Mapping[str, float]) -> float | None:
        if nothing:
            return 1.0 if control else None
        return harmonic(sum(found.values()), len(counted), len(places))

    return {
        "score": total(each),
        "any site": total(anywhere),
        "claims that count": len(counted),
        "states": each,
        "states, any site": anywhere,
    }


def correlation(right: int, named: int, true: int, among: int) -> float:
    """Matthews' correlation of what is named with what is true, of so many; 0 if none or all are named."""
    spread = named * (among - named) * true * (among - true)
    return (right * among - named * true) / spread**0.5 if spread else 0.0


def score_heads(case: StoredCase, named: frozenset[tuple[int, int]]) -> dict[str, Any]:
    """Correlation, precision and recall; null where nothing says which heads they are, or it is all of them."""
    heads = case.config.n_layers * case.config.n_heads
    if case.labels["matvec"] is None or len(case.labels["matvec"]) == heads:
        return {"score": None}
    true = {(layer, head) for layer, head in case.labels["matvec"]}
    if not true:
        return {"score": 0.0 if named else 1.0}
    right = len(true & named)
    return {
        "score": max(correlation(right, len(named), len(true), heads), 0.0),
        "precision": right / len(named) if named else None,
        "recall": right / len(true),
    }


def score_solver(case: StoredCase, named: frozenset[str]) -> dict[str, Any]:
    right = set(case.labels["solver"]["right"])
    others = named - right
    hit = len(others) < len(named)
    return {"score": 1 / (1 + len(others)) if hit else 0.0, "named": sorted(named)}


def score_interventions(case: StoredCase, said: Mapping[str, Tensor]) -> dict[str, Any]:
    each = {}
    for question in case.questions:
        name = question["id"]
        expected = case.intervened[f"{name}.expected"]
        missed = (said[name] - expected).square().sum()
        effect = (case.intervened["unchanged"] - expected).square().sum()
        each[name] = float((1 - missed / effect).clamp(min=0.0))
    return {"score": sum(each.values()) / len(each) if each else None, "questions": each}


SCORERS: Mapping[str, Callable[[StoredCase, Any], dict[str, Any]]] = {
    "subspaces": score_subspaces,
    "matvec": score_heads,
    "solver": score_solver,
    "interventions": score_interventions,
}


def score(suite: Suite, answers: Mapping[str, Answer], seed: int = 0) -> dict[str, Any]:
    """Scores of every case, and means over the cases of a group with 95 % intervals over cases."""
    by_case = {}
    for name, answer in answers.items():
        case, found = suite.cases[name], {}
        for part, scorer in SCORERS.items():
            said = getattr(answer, part)
            if said is not None:
                found[part] = scorer(case, said)
        labels = case.labels
        by_case[name] = {"kind": labels["kind"], "group": labels["group"], **found}
    return {"summary": summary(by_case, seed), "cases": by_case}


def summary(by_case: Mapping[str, Mapping[str, Any]], seed: int) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for row in ROWS:
        part, key = ("subspaces", "any site") if row == "directions" else (row, "score")
        if not any(part in case for case in by_case.values()):
            continue
        columns = {}
        for column, groups in GROUPS.items():
            values = [
                case[part][key]
                for case in by_case.values()
                if case["group"] in groups and case[part][key] is not None
            ]
            columns[column] = asdict(mean(values, seed))
        table[row] = columns
    return table


def mean(values: list[float], seed: int) -> Estimate:
    return estimate(torch.tensor(values, dtype=torch.float64), seed)
