"""What a changed target does to expected numbers: one prompt as a task whose result is kept, and what is found of a task.

Two kinds of features are compared with the influence, each with a choice and a verdict of its own: states of inputs that the
model saw alone, and the inputs themselves beside a 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import (
    Observations,
    Ridge,
    View,
    choose,
    compared,
    influence_agreement,
    judge,
)
from ridgeformer.analysis.in_context.choice import RIDGE, SIMILARITY, SMALL_RIDGE
from ridgeformer.analysis.in_context.verdict import CONTROL
from ridgeformer.baselines.base import typical_distance
from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.jobs import Result
from ridgeformer.experiments.language import told
from ridgeformer.experiments.language.asked import METHOD, digest, drawn, joined, loaded, packed
from ridgeformer.experiments.language.gathered import WEIGHTS
from ridgeformer.experiments.language.number_states import states_of
from ridgeformer.experiments.language.numbers import SMALL
from ridgeformer.experiments.language.words import stacked
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.language import Problems, prompts, read, target_changes
from ridgeformer.language.tasks import NumericTask
from ridgeformer.tasks.learnable import generator_of

SUPPORTS = 12
"""The cost grows with their square, and few prompts are worth less than few supports."""
NEAREST, FARTHEST = 1 / 9, 1 / 3
"""How far a target is moved, as a share of the numbers of the format; from any number there is one so far away."""
WIDTHS = (0.25, 0.5, 1.0)
"""Of the RBF on inputs, in units of the median distance between a query and a support."""
STATES, INPUTS = "states", "inputs"
LINE = "linear regression"
UNTRAINED = {RIDGE: "kernel ridge regression, untrained weights", SIMILARITY: told.UNTRAINED}

MEASURES = {
    "agreement of targets": "correlation of the interactions of support and query in the influence of targets",
    "difference of targets": "agreement of kernel ridge regression less that of similarity, for targets",
    "training of states": "agreement of similarity of states less that of untrained weights, for targets",
    "λ profile of targets": "agreement of kernel ridge regression as a function of λ, for targets",
    "share of targets": "part of the mean squared influence of targets",
    "sum of influence": "sum of the influence of all targets on the answer at a query, mean over queries",
}


@dataclass(frozen=True)
class TargetChange:
    """One prompt of a task, each of whose targets is changed in turn; by its number among those of a seed."""

    directory: str
    model: str
    """The fingerprint of the model."""
    task: NumericTask
    seed: int
    number: int

    def problem(self) -> Problems:
        return drawn(self.task, self.seed, self.number)

    def describe(self) -> dict[str, Any]:
        return {
            "language model": "changed numbers", "method": METHOD, "model": self.model, "task": self.task.settings(),
            "seed": self.seed, "number": self.number, "problem": digest(self.problem()),
            "changed": self.changed().tolist(),
        }  # fmt: skip

    def changed(self) -> Float[Tensor, " k"]:
        """Another target for each support: all at one distance, up or down, or the other way where the format ends."""
        written, generator = self.task.number_format(), generator_of(self.seed, 0xC4, self.number)
        own = written.index_of(self.problem().targets[0])
        near, far = (round(share * written.count) for share in (NEAREST, FARTHEST))
        distance = torch.randint(near, far + 1, (1,), generator=generator)
        step = distance * (2 * torch.randint(2, own.shape, generator=generator) - 1)
        inside = (own + step >= 0) & (own + step < written.count)
        return written.values[own + torch.where(inside, step, -step)]

    def run(self) -> Result:
        model, written, problem = loaded(self.directory), self.task.number_format(), self.problem()
        (prompt,) = prompts(model, self.task, problem)
        changed = self.changed()
        said = target_changes(model, prompt, written, changed)
        moved = (said[1:] - said[0]) / (changed - problem.targets[0])[:, None]
        attention = read(model, [prompt], layers=(0,)).attention[0]
        return {
            "outputs": packed(said[0]),
            "influence": packed(moved),
            "attention": packed(attention.permute(1, 2, 3, 0).flatten(0, 1)),
        }


def changes_of(
    directory: str, model: str, task: NumericTask, prompts: int, seed: int
) -> list[TargetChange]:
    """The prompts of one seed."""
    sized = replace(task, supports=SUPPORTS)
    return [TargetChange(directory, model, sized, seed, number) for number in range(prompts)]


@dataclass(frozen=True, eq=False)
class NumbersSeen:
    """The prompts of one seed: the same answers beside three kinds of features."""

    states: Observations
    inputs: Observations
    untrained: Observations


def gathered(tasks: Sequence[TargetChange], results: list[Result]) -> NumbersSeen:
    """The observations of prompts of one task and one seed."""
    first, parts = tasks[0], stacked(results)
    problems = joined([task.problem() for task in tasks])
    every = range(loaded(first.directory).layers + 1)
    attention = parts["attention"].transpose(0, 1)
    # A head that does not see the targets at all from some query is no smoother.
    attention = attention + 1e-12 * (attention.sum(2, keepdim=True) <= 0)

    def observed(supports: Tensor, queries: Tensor) -> Observations:
        return Observations(
            supports, queries, problems.targets, parts["outputs"], parts["influence"], first.seed,
            attention, problems.query_targets,
        )  # fmt: skip

    def from_weights(weights: int | None) -> Observations:
        states = states_of(first.directory, weights, first.task, problems, every)
        return observed(states.supports, states.queries)

    return NumbersSeen(from_weights(None), observed(*inputs_of(first.task, problems)), from_weights(WEIGHTS))  # fmt: skip


def inputs_of(task: NumericTask, problems: Problems) -> list[Float[Tensor, "1 batch n p"]]:
    """Inputs between 0 and 1 beside a column of ones, with which the linear kernel has an intercept; one layer."""
    values = task.number_format().values
    low, high = float(values[0]), float(values[-1])
    assert problems.features is not None
    assert problems.query_features is not None
    shares = ((x.double() - low) / (high - low) for x in (problems.features, problems.query_features))  # fmt: skip
    return [torch.nn.functional.pad(x, (0, 1), value=1.0)[None] for x in shares]


def views_of_inputs(observations: Observations) -> list[View]:
    """RBFs of several widths, and the linear kernel where inputs have more than one number.

    With one number, the interactions of the linear kernel are (x_i − x̄)(x_j − x̄) up to a factor for every λ, so that it tells
    ridge regression from similarity only by round-off.
    """
    typical = typical_distance(View(Linear()).prompt(observations))
    views = [View(Gaussian(width * typical)) for width in WIDTHS]
    return views if observations.supports.shape[-1] <= 2 else [View(Linear()), *views]


def tell(task: str, first: NumbersSeen, second: NumbersSeen, out: Collector) -> dict[str, told.Told]:  # fmt: skip
    """Chooses on the first prompts, judges the second, and adds the numbers of this task, for each kind of features."""
    out = out.within(task=task)
    ways = {
        STATES: (first.states, second.states, told.views_of(first.states)),
        INPUTS: (first.inputs, second.inputs, views_of_inputs(first.inputs)),
    }
    found = {
        name: tell_features(f"{task}, {name}", *way, out.within(features=name))
        for name, way in ways.items()
    }
    # A line through the supports has nothing to choose.
    line = Ridge(SMALL, Linear()).influence(View(Linear()).prompt(second.inputs))
    out.add("agreement of targets", LINE, influence_agreement(second.inputs.influence, line), features=INPUTS)  # fmt: skip
    control = choose(first.untrained, told.views_of(first.untrained))
    prompt = control.view.prompt(second.untrained)
    predictors = control.predictors(second.untrained)
    for name, shown in UNTRAINED.items():
        reached = influence_agreement(second.untrained.influence, predictors[name].influence(prompt))  # fmt: skip
        out.add("agreement of targets", shown, reached, True, features=STATES)
        if name == SIMILARITY:
            own = found[STATES].choice
            similar = own.predictors(second.states)[name].influence(own.view.prompt(second.states))
            better = influence_agreement(second.states.influence, similar) - reached
            out.add("training of states", name, better)
    for part in ("common", "supports", "queries", "interactions"):
        out.add("share of targets", part, getattr(found[STATES].verdict.shares, part))
    out.add("sum of influence", "language model", second.states.influence.double().sum(1).mean(-1))
    return found


def tell_features(
    name: str, first: Observations, second: Observations, views: Sequence[View], out: Collector
) -> told.Told:
    choice = choose(first, views)
    verdict = judge(choice, second, seed=out.seed)
    for method, value in verdict.agreement.items():
        out.add("agreement of targets", method, value, method == CONTROL)
    predictors, prompt = choice.predictors(second), choice.view.prompt(second)
    reached = {
        method: influence_agreement(second.influence, predictors[method].influence(prompt))
        for method in (RIDGE, SMALL_RIDGE, SIMILARITY)
    }
    difference = compared(f"{SMALL_RIDGE} − {SIMILARITY}", reached[SMALL_RIDGE] - reached[SIMILARITY], seed=out.seed)  # fmt: skip
    out.add("difference of targets", SMALL_RIDGE, difference.value)
    out.add("difference of targets", RIDGE, reached[RIDGE] - reached[SIMILARITY])
    profile = verdict.profile
    for ridge, value in list(zip(profile.ridges, profile.agreement, strict=True))[
        : -1 : told.EVERY
    ]:
        out.add("λ profile of targets", RIDGE, value, ridge=ridge)
    out.add("λ profile of targets", SIMILARITY, profile.agreement[-1])
    return told.Told(name, choice, verdict, difference)


def settings_of(found: dict[str, dict[str, told.Told]]) -> dict[str, Any]:
    """What was fixed and said, as plain data; verdicts are corrected over all tasks and both kinds of features."""
    every = [one for ways in found.values() for one in ways.values()]
    kinds = told.corrected(every)
    settings = told.settings_of(every, {})
    on_states = [kinds[ways[STATES].task][0] for ways in found.values()]
    return {
        "tasks": list(found),
        "supports": SUPPORTS,
        "share of the format that targets are moved by": [NEAREST, FARTHEST],
        "verdict": told.overall(on_states, "targets"),
        **{
            name: settings[name]
            for name in ("verdicts", "choices", "λ", "chance of no difference", "comparisons")
        },
    }
