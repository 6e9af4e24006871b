"""The verdict: kernel ridge regression, similarity, neighbours, recency, or that they cannot be told apart.

**The rule.** A choice that was made on prompts of another seed gives one representative of each kind of learner. Agreement is the
correlation of interactions (`influence`), one number per prompt. A kind of learner is named by a *claim* with several parts, each of
which says that a mean over prompts is above 0:

1.  *kernel ridge regression*: its agreement; and by how much it agrees better than each of similarity (λ → ∞), Nadaraya–Watson,
    similarity in a fixed metric, and nearest neighbours.
2.  *similarity*: the agreement of the best of its three members, as chosen; and by how much that agrees better than ridge regression with
    a λ of at most the mean kernel diagonal, and better than nearest neighbours. (With ever larger λ ridge regression becomes similarity, so
    that better than every λ cannot be asked.)
3.  *neighbours*: their agreement; and by how much they agree better than ridge regression and each of the similarities.
4.  *recency*: the correlation of a support's mean influence with its place, or with being the last; here one of the two is enough.

Each part is tested against "not above 0" by Student's t over prompts, with one side. A claim needs all of its parts, so that its p-value is
the largest of theirs (for recency the smaller one, doubled). The four are corrected by Holm's method, and a claim *holds* at .05: of all verdicts
whose learner is not better than one of its rivals, at most one in twenty names it.

The first claim in this order that holds is the verdict, with these exceptions, in which it *cannot be told*: ridge regression whose λ̂ has an
interval that reaches ∞, or that agrees worse than the attention of the best head, where that is given; and recency where ridge
regression, similarity or neighbours agree at all. It cannot be told either if no claim holds.

Where copies were measured, they have a veto, which is a test of its own. A member of a kind is rejected by copies if for one of the m members
of other kinds, the way to which (`copies`) has a mean beyond its middle, the p-value of "not above 0" by changes of signs, with one side, times m
is at most .05. A kind is rejected if all of its members are, so that one whose member is right is rejected at most once in twenty. If
the kind that would be named is rejected, the two tests disagree, and it cannot be told. Similarity has three members; against it, ridge
regression is that with the smaller λ. Ridge regression has three too, with the λ of the choice and with both ends of the interval of λ̂, since
influence does not know λ better than that.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context.choice import (
    ATTENTION,
    NEIGHBOURS,
    RIDGE,
    SIMILARITIES,
    SMALL_RIDGE,
    Choice,
)
from ridgeformer.analysis.in_context.copies import Copies, Discount, find_discount
from ridgeformer.analysis.in_context.influence import (
    LEVEL,
    Comparison,
    Shares,
    compared,
    influence_agreement,
    recency,
    shares_of,
)
from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.analysis.in_context.predictors import Ridge
from ridgeformer.analysis.in_context.ridge_profile import RidgeProfile, find_ridge_profile
from ridgeformer.statistics import Estimate, estimate, holm
from ridgeformer.types import Refusal

FEWEST_PROMPTS = 4

Kind = Literal["kernel ridge regression", "similarity", "neighbours", "recency", "cannot be told"]
LEAST_RIDGE, LARGEST_RIDGE = f"{RIDGE}, least λ̂", f"{RIDGE}, largest λ̂"
CONTROL = "control: supports in a wrong order"


@dataclass(frozen=True)
class Claim:
    """What must hold for one kind of learner to be named."""

    parts: tuple[Comparison, ...]
    chance: float
    """The p-value of the claim."""
    corrected: float
    """The same after Holm's correction for the claims of this verdict."""

    @property
    def holds(self) -> bool:
        return self.corrected <= LEVEL


@dataclass(frozen=True)
class Verdict:
    """What the answers of a model are like, and the claims that this rests on."""

    kind: Kind
    why: str
    claims: dict[Kind, Claim]
    agreement: dict[str, Estimate]
    """Of each predictor, and of ridge regression with the supports in a wrong order as a control."""
    profile: RidgeProfile
    shares: Shares
    discount: Discount | None
    unit: float
    """The mean kernel diagonal of the choice, by which λ is multiplied to have the kernel's units."""

    @property
    def sentence(self) -> str:
        return f"{self.kind[0].upper()}{self.kind[1:]}: {self.why}."

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values for a file of findings; None stands for ∞ and for what is undefined."""
        discount = self.discount
        return {
            "verdict": self.kind,
            "sentence": self.sentence,
            "claims": {
                kind: {
                    "p": claim.chance,
                    "p, corrected": claim.corrected,
                    "parts": {part.name: asdict(part.value) for part in claim.parts},
                }
                for kind, claim in self.claims.items()
            },
            "agreement": {name: asdict(value) for name, value in self.agreement.items()},
            "λ": self.profile.best.to_dict(),
            "unit of λ": self.unit,
            "λ of the first half": self.profile.first_half
            if self.profile.first_half < inf
            else None,
            "agreement of the second half": asdict(self.profile.second_half),
            "profile": [
                {"λ": ridge if ridge < inf else None, **asdict(value)}
                for ridge, value in zip(self.profile.ridges, self.profile.agreement, strict=True)
            ],
            "shares": asdict(self.shares),
            "copies": None
            if discount is None
            else {
                "count": discount.count,
                "discount": asdict(discount.ratio),
                "expected": dict(discount.expected),
                "ways": [
                    {"from": first, "to": other, "p": discount.chances[first, other], **asdict(way)}
                    for (first, other), way in discount.ways.items()
                ],
                "λ": discount.ridge.to_dict(),
            },
        }


def judge(
    choice: Choice, observations: Observations, copies: Copies | None = None, *, seed: int = 0
) -> Verdict:
    """The verdict by the rule above. `seed` is that of the bootstrap, from which intervals come."""
    if len(observations) < FEWEST_PROMPTS:
        raise Refusal(
            f"A verdict is a statement over prompts: give at least {FEWEST_PROMPTS}, got {len(observations)}."
        )
    predictors = choice.predictors(observations)
    prompt, found = choice.view.prompt(observations), observations.influence
    reached = {
        name: influence_agreement(found, one.influence(prompt)) for name, one in predictors.items()
    }
    profile = find_ridge_profile(
        observations, choice.view, ridges=choice.ridges, unit=choice.unit, seed=seed
    )
    claims = all_claims(choice, reached, recency(found), seed)
    kind, why = ruled(choice, claims, reached, profile)
    discount = None
    if copies is not None:
        kinds = {name: one for name, one in predictors.items() if name != ATTENTION}
        for name, end in ((LEAST_RIDGE, profile.best.low), (LARGEST_RIDGE, profile.best.high)):
            kinds[name] = Ridge(end * choice.unit, choice.view.kernel)
        discount = find_discount(
            observations, copies, choice.view, kinds, unit=choice.unit, seed=seed
        )
        kind, why = after_copies(kind, why, discount)
    wrong = predictors[RIDGE].influence(prompt).roll(1, dims=1)
    reached[CONTROL] = influence_agreement(found, wrong)
    agreement = {name: estimate(values, seed) for name, values in reached.items()}
    shares = shares_of(found, seed=seed)
    return Verdict(kind, why, claims, agreement, profile, shares, discount, choice.unit)


def all_claims(
    choice: Choice,
    reached: dict[str, Float[Tensor, " batch"]],
    trend: Float[Tensor, "batch 2"],
    seed: int,
) -> dict[Kind, Claim]:
    """The four claims, corrected together."""
    best = choice.best_similarity

    def parts(name: str, *others: str) -> tuple[Comparison, ...]:
        better = (
            compared(f"{name} − {other}", reached[name] - reached[other], seed=seed)
            for other in others
        )
        return (compared(name, reached[name], seed=seed), *better)

    found: dict[Kind, tuple[Comparison, ...]] = {
        "kernel ridge regression": parts(RIDGE, *SIMILARITIES, NEIGHBOURS),
        "similarity": parts(best, SMALL_RIDGE, NEIGHBOURS),
        "neighbours": parts(NEIGHBOURS, RIDGE, *SIMILARITIES),
        "recency": tuple(
            compared(f"recency, {name}", trend[:, n], seed=seed)
            for n, name in enumerate(("place", "last"))
        ),
    }
    chances = {
        kind: max(part.one_sided for part in each)
        if kind != "recency"
        else min(1.0, 2 * min(part.one_sided for part in each))
        for kind, each in found.items()
    }
    corrected = dict(zip(chances, holm(list(chances.values())), strict=True))
    return {kind: Claim(each, chances[kind], corrected[kind]) for kind, each in found.items()}


def ruled(
    choice: Choice,
    claims: dict[Kind, Claim],
    reached: dict[str, Float[Tensor, " batch"]],
    profile: RidgeProfile,
) -> tuple[Kind, str]:
    """What the influence says alone."""
    if claims["kernel ridge regression"].holds:
        best = profile.best
        if ATTENTION in reached:
            behind = compared("", reached[RIDGE] - reached[ATTENTION], seed=0)
            if behind.chance <= LEVEL and not behind.above:
                return (
                    "cannot be told",
                    "the attention of one head agrees better than ridge regression",
                )
        if not best.finite:
            return "cannot be told", "ridge regression agrees best, but its λ may be infinite"
        return "kernel ridge regression", (
            f"λ̂ = {best.value:.3g} [{best.low:.3g}, {best.high:.3g}] of the mean kernel diagonal, and it agrees better "
            f"than every rival, by {least(claims['kernel ridge regression']):.2g} at least"
        )
    if claims["similarity"].holds:
        return "similarity", (
            f"{choice.best_similarity} agrees better than nearest neighbours, and than ridge regression with a λ up to "
            f"the mean kernel diagonal, by {least(claims['similarity']):.2g} at least"
        )
    if claims["neighbours"].holds:
        return "neighbours", (
            f"the mean of {choice.neighbours} nearest supports agrees better than every rival, by "
            f"{least(claims['neighbours']):.2g} at least"
        )
    three = [claims[k].parts[0] for k in ("kernel ridge regression", "similarity", "neighbours")]
    agrees = [part.name for part in three if len(three) * part.one_sided <= LEVEL]
    if agrees:
        return (
            "cannot be told",
            f"{' and '.join(agrees)} agree, and none better than all its rivals",
        )
    if claims["recency"].holds:
        return "recency", (
            "no comparison of features agrees with the influence, and later supports have more of it"
        )
    return "cannot be told", "no comparison of features agrees with the influence"


def least(claim: Claim) -> float:
    """The smallest of the differences that a claim is made of."""
    return min(part.value.mean or 0.0 for part in claim.parts[1:])


RIVALS: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "kernel ridge regression": ((RIDGE, LEAST_RIDGE, LARGEST_RIDGE), (*SIMILARITIES, NEIGHBOURS)),
    "similarity": (SIMILARITIES, (SMALL_RIDGE, NEIGHBOURS)),
    "neighbours": ((NEIGHBOURS,), (RIDGE, *SIMILARITIES)),
}
"""The members of each kind, and those of the others that copies are compared with."""


def after_copies(kind: Kind, why: str, discount: Discount) -> tuple[Kind, str]:
    """The veto of copies."""
    found, expected = discount.ratio.mean, discount.expected
    if kind not in RIVALS or found is None:
        return kind, why
    members, others = RIVALS[kind]
    said = f"a support that comes {discount.count} times counts {found:.2f} as much each time"
    if all(discount.rejects(own, others) for own in members):
        nearest = min(others, key=lambda name: abs(expected[name] - found))
        return "cannot be told", (
            f"influence says {kind}, but {said}, where {members[0]} says {expected[members[0]]:.2f} and {nearest} "
            f"{expected[nearest]:.2f}"
        )
    own = min(members, key=lambda name: abs(expected[name] - found))
    return kind, f"{why}; {said}, where {own} says {expected[own]:.2f}"
