"""Do the outputs follow a predictor? Correlations over the queries of a prompt, which a bias of labels cannot enter.

    within       the correlation of outputs and predictions over the queries of a prompt
    given truth  the same after the true targets are regressed out of both: do they share more than being right?
    sides        of the queries at which a model is wrong about one of two classes, how many a predictor is wrong at, too
    errors       for numbers, the correlation of (output − truth) with (prediction − truth)

A predictor that knows the truth, and not the model, has a high first number and a low one everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.analysis.in_context.predictors import Predictor
from ridgeformer.analysis.in_context.views import View
from ridgeformer.statistics import (
    UNDEFINED,
    Estimate,
    correlation,
    estimate,
    nested_estimates_of,
)

CONSTANT = 1e-9
"""What varies by less than this part of its size is constant, but for round-off."""


@dataclass(frozen=True)
class Agreement:
    """Means over prompts; undefined without truth, or where no prompt has a value."""

    within: Estimate
    given_truth: Estimate
    sides: Estimate
    errors: Estimate


def find_agreement(
    outputs: Float[Tensor, "batch q"],
    predictions: Float[Tensor, "batch q"],
    truth: Float[Tensor, "batch q"] | None = None,
    *,
    seed: int,
) -> Agreement:
    """How far outputs follow predictions; two true values make classes, more make numbers."""
    outputs, predictions = outputs.double(), predictions.double()
    within = estimate(correlated(outputs, predictions), seed)
    if truth is None:
        return Agreement(within, UNDEFINED, UNDEFINED, UNDEFINED)
    truth = truth.double()
    known = estimate(correlated(without(truth, outputs), without(truth, predictions)), seed)
    if len(set(truth.flatten().tolist())) <= 2:
        return Agreement(within, known, sides(outputs, predictions, truth, seed), UNDEFINED)
    errors = estimate(correlated(outputs - truth, predictions - truth), seed)
    return Agreement(within, known, UNDEFINED, errors)


def correlated(a: Float[Tensor, "batch q"], b: Float[Tensor, "batch q"]) -> Float[Tensor, " batch"]:
    """Pearson's correlation over the queries of each prompt; NaN where one side is constant."""
    constant = torch.zeros(len(a), dtype=torch.bool)
    for side in (a, b):
        apart = side - side.mean(-1, keepdim=True)
        constant |= apart.norm(dim=-1) <= CONSTANT * side.norm(dim=-1)
    return correlation(a.numpy(), b.numpy()).masked_fill(constant, torch.nan)


def without(
    truth: Float[Tensor, "batch q"], values: Float[Tensor, "batch q"]
) -> Float[Tensor, "batch q"]:
    """The residual of each prompt's values after a line in the truth; for two classes, less the means of each."""
    centred, known = (x - x.mean(-1, keepdim=True) for x in (values, truth))
    size = known.square().sum(-1, keepdim=True)
    slope = (centred * known).sum(-1, keepdim=True) / size.clamp(min=1e-300)
    left = centred - torch.where(size > 0, slope, 0.0) * known
    # What a line explains to round-off is not there.
    there = left.norm(dim=-1, keepdim=True) > CONSTANT * values.norm(dim=-1, keepdim=True)
    return torch.where(there, left, 0.0)


def sides(
    outputs: Float[Tensor, "batch q"],
    predictions: Float[Tensor, "batch q"],
    truth: Float[Tensor, "batch q"],
    seed: int,
) -> Estimate:
    """Of the queries at which the outputs are on the wrong side of their mean, how many predictions are, too.

    Means are those of the prompt, so that a bias of labels takes no side. Few queries of a prompt count, so that all of
    them are pooled, and queries are resampled within prompts.
    """
    said, predicted, true = (
        (x - x.mean(-1, keepdim=True)).sign() for x in (outputs, predictions, truth)
    )
    wrong = said * true < 0
    both = wrong & (predicted * true < 0)
    counts = torch.stack([both, wrong], dim=-1).double()
    if not wrong.any():
        return UNDEFINED

    def share(means: Tensor) -> Tensor:
        # A resample without an error, of which a few prompts have some, tells nothing either way.
        return torch.where(means[:, 1:] > 0, means[:, :1] / means[:, 1:].clamp(min=1e-300), 0.5)

    return nested_estimates_of(counts, share, seed)[0]


def agreement_by_layer(
    observations: Observations,
    views: list[View],
    predictor: Callable[[View], Predictor],
    *,
    seed: int,
) -> dict[str, Agreement]:
    """The agreement of one kind of predictor in each view, such as all layers, by the view's label."""
    found = {}
    for view in views:
        said = predictor(view).predict(view.prompt(observations))[..., 0]
        found[view.label] = find_agreement(
            observations.outputs, said, observations.truth, seed=seed
        )
    return found
