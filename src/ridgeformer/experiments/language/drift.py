"""Do states of the same word move from prompt to prompt, and what does that do to ridge regression on them?

The same words are asked after several contexts, which have none of them. States that move together, by one shift of a context, have
no part in what is centred by prompt; so drift is told of states as they are, and less the mean of all words in their context.

The theorem on drift is applied to the words as a problem of their own: some are supports with their classes as targets, and the
others queries, in turn. All their features are read in one context, and then in the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import (
    DriftEffect,
    drift_by_layer,
    effect_of_drift,
    find_frozen_subspace,
)
from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.jobs import Result
from ridgeformer.experiments.language.asked import (
    METHOD,
    digest,
    loaded,
    packed,
    unpacked,
    untrained,
)
from ridgeformer.experiments.language.gathered import WEIGHTS
from ridgeformer.experiments.language.names import (
    FROZEN,
    PRINCIPAL,
    RANDOM,
    SHIFTED,
    UNTRAINED,
    WHOLE,
)
from ridgeformer.experiments.language.outputs import centred_unit
from ridgeformer.experiments.language.words import LABELS
from ridgeformer.kernels import Linear
from ridgeformer.language import LanguageModel, LanguageTask, Problems, prompts
from ridgeformer.language.readings import in_context
from ridgeformer.language.tasks import ClassTask
from ridgeformer.solvers import krr
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import generator_of

MOST_TASKS = 2
INPUTS, CONTEXTS, SUPPORTS = 32, 12, 16
"""Words that are asked, in so many contexts of so many examples; half of each from either class."""
MOST_LAYERS = 11
"""So many layers are read at most, evenly spaced."""
DIMENSIONS = 8
"""Of the frozen subspace."""
FOLDS = 4
"""Words are queries in so many turns."""
RIDGE = 1.0
"""λ: features have length 1, so that this is the mean kernel diagonal."""
FITTED_INPUTS, FITTED_CONTEXTS = 0xD5, 0xD6
"""These are part of the seeds of words and of contexts, so that no prompt shares them."""

Weights = Literal["trained", "untrained"]

MEASURES = {
    "drift": "variance of the states of a word over contexts, over the variance between words; intervals are over words",
    "drift of other words": "the same for words that did not fit the subspace, in contexts that did not either",
    "kept": "part of the variance between those words that the subspace keeps",
    "change of f*": "mean |f − f̂| of ridge regression on states read in another context, over the mean |f|; intervals are over contexts",
    "bound on the change of f*": "what the theorem on drift allows for it",
    "change of f* for other words": "the change for words that did not fit the subspace, in contexts that did not either",
    "accuracy of f* for other words": "share of those words whose class ridge regression tells in the same context",
}


@dataclass(frozen=True)
class DriftContext:
    """One context, after which all words are asked."""

    directory: str
    model: str
    """The fingerprint of the model."""
    task: ClassTask
    weights: Weights
    seed: int
    number: int

    def problem(self) -> Problems:
        """The context as supports, and the words as queries; classes of words alternate."""
        asked, left = inputs_of(self.task, self.seed)
        generator = generator_of(self.seed, FITTED_CONTEXTS, self.number)
        shown = [
            (words[int(i)], label)
            for label, words in enumerate(left)
            for i in torch.randperm(len(words), generator=generator)[: SUPPORTS // 2]
        ]
        order = torch.randperm(SUPPORTS, generator=generator).tolist()
        return Problems(
            (tuple(shown[i][0] for i in order),),
            torch.tensor([[float(shown[i][1]) for i in order]], dtype=torch.float64),
            (asked,),
            (torch.arange(INPUTS) % 2).double()[None],
        )

    def describe(self) -> dict[str, Any]:
        return {
            "language model": "drift", "method": METHOD, "model": self.model, "task": self.task.name,
            "labels": LABELS, "weights": self.weights, "seed of weights": WEIGHTS, "layers": MOST_LAYERS,
            "seed": self.seed, "number": self.number, "problem": digest(self.problem()),
        }  # fmt: skip

    def run(self) -> Result:
        trained = self.weights == "trained"
        model = loaded(self.directory) if trained else untrained(self.directory, WEIGHTS)
        (prompt,) = prompts(model, self.task, self.problem(), LABELS)
        states = in_context(model, prompt, layers_of(model), attention=False)[1]
        return {"states": packed(states)}


def inputs_of(
    task: ClassTask, seed: int
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]]:
    """The words that are asked, of alternating classes, and those of each class that are left for contexts."""
    generator = generator_of(seed, FITTED_INPUTS)
    first, second = (
        [words[int(i)] for i in torch.randperm(len(words), generator=generator)]
        for words in task.members
    )
    half = INPUTS // 2
    asked = [word for pair in zip(first[:half], second[:half], strict=True) for word in pair]
    return tuple(asked), (tuple(first[half:]), tuple(second[half:]))


def layers_of(model: LanguageModel) -> tuple[int, ...]:
    """Layers that are evenly spaced, from the first to the last."""
    last = MOST_LAYERS - 1
    return tuple(sorted({round(i * model.layers / last) for i in range(MOST_LAYERS)}))


def drift_jobs(
    directory: str, known: str, tasks: Sequence[LanguageTask], seed: int
) -> dict[str, list[DriftContext]]:
    """The contexts of the first tasks that have classes with enough words."""
    enough = (INPUTS + SUPPORTS) // 2
    roomy = [t for t in tasks if isinstance(t, ClassTask) and min(map(len, t.members)) >= enough]
    kinds: tuple[Weights, ...] = ("trained", "untrained")
    return {
        task.name: [
            DriftContext(directory, known, task, weights, seed, number)
            for weights in kinds
            for number in range(CONTEXTS)
        ]
        for task in roomy[:MOST_TASKS]
    }


def score(jobs: Sequence[DriftContext], results: list[Result], out: Collector) -> None:
    """Adds the numbers of one task."""
    layers = layers_of(loaded(jobs[0].directory))
    states = {
        weights: torch.stack(
            [unpacked(r["states"]) for job, r in zip(jobs, results, strict=True) if job.weights == weights],
            dim=2,
        ).transpose(0, 1)
        for weights in ("trained", "untrained")
    }  # fmt: skip
    classes = jobs[0].problem().query_targets[0] * 2 - 1
    tell(layers, states["trained"], states["untrained"], classes, out.within(task=jobs[0].task.name))  # fmt: skip


def tell(
    layers: Sequence[int],
    trained: Float[Tensor, "layers n m p"],
    untrained: Float[Tensor, "layers n m p"],
    classes: Float[Tensor, " n"],
    out: Collector,
) -> None:
    """Drift by layer, what it does to f*, and whether a frozen subspace helps."""
    for weights, states in (("", trained), (UNTRAINED, untrained)):
        own = states.double()
        for name, values in ((WHOLE, own), (SHIFTED, own - own.mean(1, keepdim=True))):
            for layer, drift in zip(layers, drift_by_layer(values, seed=out.seed), strict=True):
                out.add("drift", name + weights, drift, bool(weights), layer=layer)
    for layer, states in zip(layers, trained.double(), strict=True):
        here = out.within(layer=layer)
        add_effect(states, classes, here)
        if bool((states.std(0) > 0).any()):  # a layer in which all words are alike has no subspace
            add_subspace(states, classes, here)


def add_effect(states: Float[Tensor, "n m p"], classes: Float[Tensor, " n"], out: Collector) -> None:  # fmt: skip
    effect = effect_on(states, classes, out.seed)
    out.add("change of f*", WHOLE, effect.change)
    out.add("bound on the change of f*", WHOLE, effect.bound)


def effect_on(states: Float[Tensor, "n m p"], classes: Float[Tensor, " n"], seed: int) -> DriftEffect:  # fmt: skip
    before, after = (turns(by_context, classes)[0] for by_context in readings(states))
    return effect_of_drift(before, after, ridge=RIDGE, kernel=Linear(), seed=seed, together=FOLDS)


def add_subspace(states: Float[Tensor, "n m p"], classes: Float[Tensor, " n"], out: Collector) -> None:  # fmt: skip
    """The frozen subspace and its controls, each on the words and contexts that did not fit it."""
    n, m, p = states.shape
    found = find_frozen_subspace(states, min(DIMENSIONS, p, n // 2 - 1), seed=out.seed)
    others, own = states[n // 2 :, m // 2 :], classes[n // 2 :]
    apart = others.mean(1) - others.mean((0, 1))
    for name, basis, drift in (
        (WHOLE, torch.eye(p, dtype=torch.float64), found.whole),
        (FROZEN, found.basis, found.other_inputs),
        (PRINCIPAL, found.principal_basis, found.principal),
        (RANDOM, found.random_basis, found.random),
    ):
        control = name in (PRINCIPAL, RANDOM)
        seen = others @ basis
        out.add("drift of other words", name, drift, control)
        out.add("change of f* for other words", name, effect_on(seen, own, out.seed).change, control)  # fmt: skip
        out.add("accuracy of f* for other words", name, accuracy(seen, own), control)
        part = float((apart @ basis).square().sum() / apart.square().sum())
        out.exact("kept", name, part, control)


def accuracy(states: Float[Tensor, "n m p"], classes: Float[Tensor, " n"]) -> Float[Tensor, " m"]:
    """The share of words whose class ridge regression on the others' states tells, in each context."""
    prompt, truth = turns(readings(states)[0], classes)
    said = krr(prompt, ridge=RIDGE, kernel=Linear())[..., 0]
    return (said.sign() == truth).double().reshape(-1, truth.numel() // states.shape[1]).mean(-1)


def readings(states: Float[Tensor, "n m p"]) -> tuple[Tensor, Tensor]:
    """The states of each context, and those of the context after it."""
    by_context = states.transpose(0, 1)
    return by_context, by_context.roll(-1, 0)


def turns(
    states: Float[Tensor, "m n p"], classes: Float[Tensor, " n"]
) -> tuple[Prompt, Float[Tensor, "batch q"]]:
    """Problems of the words of each context, in which each pair of words is once among the queries, and the queries' classes.

    The turns of a context follow each other. Features are less the mean of the supports, and of length 1.
    """
    turn = torch.arange(len(classes)) // 2 % FOLDS
    supports, queries = (
        torch.stack([(turn.eq(fold) == asked).nonzero()[:, 0] for fold in range(FOLDS)])
        for asked in (False, True)
    )
    phi, asked = centred_unit(states[:, supports].flatten(0, 1), states[:, queries].flatten(0, 1))
    y, truth = (classes.double()[rows].repeat(len(states), 1) for rows in (supports, queries))
    return Prompt(phi, y[..., None], asked), truth


def settings_of(model: LanguageModel, jobs: dict[str, list[DriftContext]]) -> dict[str, Any]:
    """What was fixed, as plain data."""
    return {
        "tasks": list(jobs),
        "words": INPUTS,
        "contexts": CONTEXTS,
        "supports": SUPPORTS,
        "layers": list(layers_of(model)),
        "dimensions": DIMENSIONS,
        "λ": RIDGE,
    }
