"""What is found of one task with words: its verdict, and the numbers that the page shows.

Everything that is free is fixed on the prompts of one seed, and every number is from those of another. Untrained features have
the same freedom, and so has the layer of states in context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from torch import Tensor

from ridgeformer.analysis.in_context import (
    Choice,
    Comparison,
    Observations,
    Verdict,
    View,
    additivity_of_changes,
    choose,
    compared,
    influence_agreement,
    interactions,
    judge,
    standard_views,
)
from ridgeformer.analysis.in_context.choice import ATTENTION, RIDGE, SIMILARITY, SMALL_RIDGE
from ridgeformer.analysis.in_context.influence import LEVEL
from ridgeformer.analysis.in_context.verdict import CONTROL, Kind
from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.language import outputs
from ridgeformer.experiments.language.gathered import Seen
from ridgeformer.experiments.language.noise import noise_of, rates_under
from ridgeformer.experiments.language.words import TOGETHER, centred_cosines
from ridgeformer.statistics import Estimate, holm

MOST_LAYERS = 16
"""So many layers are tried at most, evenly spaced."""
EVERY = 5
"""Every so manieth λ of the profile is kept."""
POINTS = 400
"""Points of the scatter, for each task."""
UNTRAINED, IN_CONTEXT = "similarity, untrained weights", "similarity of states in context"

MEASURES = {
    "agreement": "correlation of the interactions of support and query in the influence, mean over prompts",
    "difference": "agreement of kernel ridge regression less that of similarity",
    "by layer": "agreement of cosines with the influence, at each layer",
    "λ profile": "agreement of kernel ridge regression as a function of λ, in units of the mean kernel diagonal",
    **outputs.MEASURES,
    "discount": "response per copy of a repeated support over that of one",
    "additivity": "response to several flips over the sum of the responses to each",
    "share": "part of the mean squared influence",
    "noise": "what the best predictor leaves of the influence, in the numbers by which simulated learners are spoilt",
    "power": "share of simulated learners that are called kernel ridge regression, with its exact interval; prompts are learners",
}


@dataclass(frozen=True)
class Told:
    """One task's choice and verdict, and ridge regression less similarity."""

    task: str
    choice: Choice
    verdict: Verdict
    difference: Comparison
    """With a λ of at most the mean kernel diagonal; beyond, the two differ little."""


def views_of(observations: Observations) -> list[View]:
    """The cosine, centred by prompt and not, and the RBF, at layers that are evenly spaced."""
    layers = spaced(observations.layers)
    return [v for v in standard_views(observations, layers) if v.unit or v.kernel.name != "linear"]


def spaced(layers: int) -> range:
    """The layers that are tried, of so many."""
    return range(0, layers, -(-layers // MOST_LAYERS))


def tell(task: str, first: Seen, second: Seen, out: Collector) -> Told:
    """Chooses on the first prompts, judges the second, and adds the numbers of this task."""
    out = out.within(task=task)
    choice = choose(first.trained, views_of(first.trained))
    verdict = judge(choice, second.trained, second.copies, seed=out.seed)
    predictors = choice.predictors(second.trained)
    found = second.trained.influence
    for name, value in verdict.agreement.items():
        out.add("agreement", name, value, name == CONTROL)
    add_controls(first, second, out)
    prompt = choice.view.prompt(second.trained)
    reached = {
        name: influence_agreement(found, predictors[name].influence(prompt))
        for name in (RIDGE, SMALL_RIDGE, SIMILARITY)
    }
    difference = compared(f"{SMALL_RIDGE} − {SIMILARITY}", reached[SMALL_RIDGE] - reached[SIMILARITY], seed=out.seed)  # fmt: skip
    out.add("difference", SMALL_RIDGE, difference.value)
    out.add("difference", RIDGE, reached[RIDGE] - reached[SIMILARITY])
    add_layers(second, out)
    outputs.add_output_layers(second.trained, second.untrained, out)
    add_profile(verdict, out)
    outputs.add_outputs(
        second.trained, {n: p.predict(prompt)[..., 0] for n, p in predictors.items()}, out
    )
    add_copies(verdict, out)
    flips = -2.0 * second.trained.targets[..., None] * found
    for at, n in enumerate(TOGETHER):
        of_these = flips * second.flipped[:, at, :, None]
        added = additivity_of_changes(second.together[:, at], of_these, seed=out.seed)
        out.add("additivity", "flips", added, flips=n)
    for part in ("common", "supports", "queries", "interactions"):
        out.add("share", part, getattr(verdict.shares, part))
    add_power(choice, second, out)
    return Told(task, choice, verdict, difference)


def add_controls(first: Seen, second: Seen, out: Collector) -> None:
    """Features of untrained weights, and states in context, each with a choice of its own."""
    choice = choose(first.untrained, views_of(first.untrained))
    prompt = choice.view.prompt(second.untrained)
    weights = choice.predictors(second.untrained)[SIMILARITY].influence(prompt)
    reached = influence_agreement(second.untrained.influence, weights)
    out.add("agreement", UNTRAINED, reached, True, layer=choice.view.layer)
    layer = int(influence_agreement(first.trained.influence, first.in_context).mean(-1).argmax())
    reached = influence_agreement(second.trained.influence, second.in_context[layer])
    out.add("agreement", IN_CONTEXT, reached, layer=layer)


def add_layers(seen: Seen, out: Collector) -> None:
    features = {
        "isolated": centred_cosines(seen.trained.supports, seen.trained.queries),
        "isolated, untrained": centred_cosines(seen.untrained.supports, seen.untrained.queries),
        "in context": seen.in_context,
    }
    for name, similar in features.items():
        reached = influence_agreement(seen.trained.influence, similar)
        for layer, values in enumerate(reached):
            out.add("by layer", name, values, "untrained" in name, layer=layer)


def add_profile(verdict: Verdict, out: Collector) -> None:
    profile = verdict.profile
    kept = zip(profile.ridges, profile.agreement, strict=True)
    for ridge, value in list(kept)[:-1:EVERY]:
        out.add("λ profile", RIDGE, value, ridge=ridge)
    out.add("λ profile", SIMILARITY, profile.agreement[-1])


def add_copies(verdict: Verdict, out: Collector) -> None:
    if verdict.discount is None:
        return
    out.add("discount", "language model", verdict.discount.ratio)
    for name, expected in verdict.discount.expected.items():
        if isfinite(expected):
            out.exact("discount", name, expected, True)


def add_power(choice: Choice, seen: Seen, out: Collector) -> None:
    """How often simulated learners with the features and the noise of this task are called ridge regression."""
    noise = noise_of(seen.trained, choice)
    if noise is None:
        return
    for part in ("ceiling", "recency", "places", "gains"):
        out.exact("noise", part, getattr(noise, part))
    words = seen.words[choice.view.layer]
    for rates in rates_under(noise, words, seen.trained, seed=out.seed):
        share = Estimate(*rates.share("kernel ridge regression"), rates.repeats)
        out.add("power", rates.learner.name, share, rates.learner.kind != RIDGE)


def corrected(told: Sequence[Told]) -> dict[str, tuple[Kind, str]]:
    """The verdict of each task after Holm's correction over tasks, and why.

    A claim that was corrected for the others of its task is corrected once more for all tasks; one that does not stand
    that cannot be told.
    """
    chances = [
        one.verdict.claims[one.verdict.kind].corrected if one.verdict.kind in one.verdict.claims else 1.0
        for one in told
    ]  # fmt: skip
    found: dict[str, tuple[Kind, str]] = {}
    for one, chance in zip(told, holm(chances), strict=True):
        kind, why = one.verdict.kind, one.verdict.why
        if kind != "cannot be told" and chance > LEVEL:
            kind, why = "cannot be told", f"{kind} does not stand the correction for all tasks (p = {chance:.2g})"  # fmt: skip
        found[one.task] = (kind, why)
    return found


def overall(kinds: Sequence[Kind], changed: str = "labels") -> str:
    """One sentence over all tasks, in which labels or targets were changed."""
    named = [kind for kind in dict.fromkeys(kinds) if kind != "cannot be told"]
    total = len(kinds)
    counts = {kind: kinds.count(kind) for kind in named}
    if not named:
        return "It cannot be told what the predictions are like: no kind of learner is named in any task."
    if len(named) == 1:
        (kind,) = named
        rest = total - counts[kind]
        others = "" if not rest else f", and in the other {rest} it cannot be told"
        where = "in the one task" if total == 1 else f"in {counts[kind]} of {total} tasks"
        return f"The influence of {changed} is that of {kind} {where}{others}."
    listed = " and ".join(f"that of {kind} in {n}" for kind, n in counts.items())
    return f"The influence of {changed} differs between the {total} tasks: it is {listed}."


def settings_of(told: Sequence[Told], seen: dict[str, Seen]) -> dict[str, Any]:
    """What was fixed and said, as plain data."""
    kinds = corrected(told)
    chances = holm([one.difference.chance for one in told])
    counted = sum(len(c.parts) for one in told for c in one.verdict.claims.values())
    return {
        "verdict": overall([kind for kind, _ in kinds.values()]),
        "verdicts": {task: {"kind": kind, "why": why} for task, (kind, why) in kinds.items()},
        "choices": {one.task: plain(one.choice.to_dict()) for one in told},
        "λ": {one.task: plain(vars(one.verdict.profile.best)) for one in told},
        "chance of no difference": {
            one.task: {"p": one.difference.chance, "corrected": p}
            for one, p in zip(told, chances, strict=True)
        },
        "comparisons": {
            "parts of claims": counted,
            "ridge regression less similarity": len(told),
            "correction": "Holm over the four claims of a task, and over tasks",
        },
        "names": {
            "ridge": RIDGE,
            "small ridge": SMALL_RIDGE,
            "similarity": SIMILARITY,
            "attention": ATTENTION,
            "untrained": UNTRAINED,
            "in context": IN_CONTEXT,
        },
        "scatter": {one.task: scatter(one, seen[one.task]) for one in told if one.task in seen},
    }


def plain(value: Any) -> Any:
    """JSON holds no infinities, which are written as words."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def scatter(told: Told, seen: Seen) -> dict[str, list[float]]:
    """Interactions of the influence and of the two predictors, each in units of its spread in the prompt."""
    predictors = told.choice.predictors(seen.trained)
    prompt = told.choice.view.prompt(seen.trained)

    def shown(influence: Tensor) -> list[float]:
        left = interactions(influence)
        left = left / left.square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-300)
        flat = left.flatten()
        return [round(float(v), 3) for v in flat[:: max(1, len(flat) // POINTS)]]

    return {
        "found": shown(seen.trained.influence),
        **{name: shown(predictors[name].influence(prompt)) for name in (SMALL_RIDGE, SIMILARITY)},
    }
