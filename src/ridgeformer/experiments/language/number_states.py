"""Regression on a model's own states of written numbers, each of which it saw alone: what its features know of the answers.

Layer, kernel, λ and temperature are those with the least error on problems of another seed. No answer of the model takes
part, neither there nor in the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import (
    Predictor,
    Ridge,
    Smoothing,
    View,
    diagonal_unit,
    neighbours,
    ridge_influence,
)
from ridgeformer.analysis.in_context.predictors import exponents
from ridgeformer.baselines.base import typical_distance
from ridgeformer.experiments.language.asked import loaded, untrained
from ridgeformer.experiments.language.told import spaced
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.language import Problems, isolated_states, number_prompts
from ridgeformer.language.formats import FORMATS
from ridgeformer.language.tasks import NumericTask
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

RIDGES = tuple(float(r) for r in np.logspace(-6, 2, 33))
"""λ in units of the mean kernel diagonal. States of numbers have much in common, beside which their differences are small,
and so is the λ that does not hide them."""
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""In units of the standard deviation of exponents over the supports of a prompt."""
RIDGE, SMOOTHING, NEIGHBOUR = "ridge on states", "Nadaraya–Watson on states", "1-NN on states"


@dataclass(frozen=True, eq=False)
class NumberStates:
    """Problems whose inputs are states, at several layers; targets and truth are less the mean target of their problem."""

    layers: tuple[int, ...]
    supports: Float[Tensor, "layers batch k d"]
    queries: Float[Tensor, "layers batch q d"]
    targets: Float[Tensor, "batch k"]
    truth: Float[Tensor, "batch q"]

    def prompt(self, view: View) -> Prompt:
        at = self.layers.index(view.layer)
        return view.compared(self.supports[at], self.queries[at], self.targets)

    def error(self, said: Float[Tensor, "*more batch q"]) -> Float[Tensor, "*more"]:
        """The root of the mean squared error over all problems."""
        return (said - self.truth).square().mean((-2, -1)).sqrt()


@dataclass(frozen=True)
class StateChoice:
    """What was fixed, with the error of each predictor where it was, which is too good and only for the record."""

    views: dict[str, View]
    predictors: dict[str, Predictor]
    numbers: dict[str, float]
    """λ, in units of the mean kernel diagonal, and the temperature."""
    errors: dict[str, float]
    views_tried: int

    def predict(self, states: NumberStates) -> dict[str, Float[Tensor, "batch q"]]:
        """What each predictor says, less the mean target of the problem."""
        return {
            name: one.predict(states.prompt(self.views[name]))[..., 0]
            for name, one in self.predictors.items()
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "layer": self.views[RIDGE].layer,
            "views": {name: view.label for name, view in self.views.items()},
            **self.numbers,
            "RMSE where chosen": dict(self.errors),
            "views tried": self.views_tried,
        }


def choose_on_states(states: NumberStates) -> StateChoice:
    """The view and λ of ridge regression with the least error; at that layer, the best view of each other predictor."""
    views = [view for layer in states.layers for view in views_at(states, layer)]
    if not views:
        raise Refusal("The states of all numbers are equal at every layer: this is no model.")
    (error, number, ridge), view = best(views, lambda v: best_ridge(states, v))
    others = [v for v in views if v.layer == view.layer]
    (heat_error, temperature, smoothing), heat_view = best(others, lambda v: best_temperature(states, v))  # fmt: skip
    (near_error, _, nearest), near_view = best(others, lambda v: one_neighbour(states, v))
    return StateChoice(
        {RIDGE: view, SMOOTHING: heat_view, NEIGHBOUR: near_view},
        {RIDGE: ridge, SMOOTHING: smoothing, NEIGHBOUR: nearest},
        {"λ": number, "temperature": temperature},
        {RIDGE: error, SMOOTHING: heat_error, NEIGHBOUR: near_error},
        len(views),
    )


Tried = tuple[float, float, Predictor]
"""The error of a predictor, its number, and itself."""


def best(views: Sequence[View], tried: Callable[[View], Tried]) -> tuple[Tried, View]:
    return min(((tried(view), view) for view in views), key=lambda pair: pair[0][0])


def views_at(states: NumberStates, layer: int) -> list[View]:
    """The linear kernel and the cosine, centred by prompt and not, and the RBF; none where all states are equal."""
    width = typical_distance(states.prompt(View(Linear(), layer)))
    centred = View(Linear(), layer, "prompt")
    if not (width > 0 and states.prompt(centred).phi.any()):
        return []
    return [
        View(Linear(), layer),
        centred,
        View(Linear(), layer, unit=True),
        View(Linear(), layer, "prompt", unit=True),
        View(Gaussian(width), layer),
    ]


def best_ridge(states: NumberStates, view: View) -> Tried:
    prompt = states.prompt(view)
    unit = diagonal_unit(prompt, view.kernel)
    weights = ridge_influence(prompt, view.kernel, [r * unit for r in RIDGES])
    errors = states.error((weights * prompt.y).sum(-2))
    at = int(errors.argmin())
    return float(errors[at]), RIDGES[at], Ridge(RIDGES[at] * unit, view.kernel)


def best_temperature(states: NumberStates, view: View) -> Tried:
    prompt = states.prompt(view)
    spread = float(exponents(view.kernel, prompt).std(-1).mean())
    tried = [t * spread for t in TEMPERATURES]
    errors = [float(states.error(Smoothing(t, view.kernel).predict(prompt)[..., 0])) for t in tried]
    at = int(np.argmin(errors))
    return errors[at], tried[at], Smoothing(tried[at], view.kernel)


def one_neighbour(states: NumberStates, view: View) -> Tried:
    nearest = neighbours(1)
    return float(states.error(nearest.predict(states.prompt(view))[..., 0])), 1.0, nearest


def states_of(
    directory: str,
    weights: int | None,
    task: NumericTask,
    problems: Problems,
    layers: Sequence[int] | None = None,
) -> NumberStates:
    """Problems as states of a model, or of one with untrained `weights` of that seed.

    Layers are evenly spaced, unless they are named.
    """
    layers = tuple(spaced(loaded(directory).layers + 1) if layers is None else layers)
    texts = dict.fromkeys(t for row in (*problems.inputs, *problems.queries) for t in row)
    if task.dimensions == 1:  # All numbers of the format are few, and serve every task.
        texts = dict.fromkeys(task.number_format().texts())
    rows = {text: row for row, text in enumerate(texts)}
    states = states_of_texts(directory, weights, task.format, tuple(rows), layers)

    def of(chosen: Sequence[Sequence[str]]) -> Float[Tensor, "layers batch n d"]:
        return states[:, torch.tensor([[rows[text] for text in row] for row in chosen])]

    mean = problems.targets.double().mean(1, keepdim=True)
    return NumberStates(
        layers,
        of(problems.inputs),
        of(problems.queries),
        problems.targets - mean,
        problems.query_targets - mean,
    )


@lru_cache(maxsize=4)
def states_of_texts(
    directory: str, weights: int | None, written: str, texts: tuple[str, ...], layers: tuple[int, ...]
) -> Float[Tensor, "layers n d"]:  # fmt: skip
    """The state at which each input alone is answered."""
    model = loaded(directory) if weights is None else untrained(directory, weights)
    form = FORMATS.find(written)
    # No target takes part in the state of an input alone.
    some = form.values[:1].expand(1, len(texts))
    built = number_prompts(model, Problems((texts,), some, (texts[:1],), some[:, :1]), form)
    return isolated_states(model, built, layers)[0, : len(texts)].transpose(0, 1)
