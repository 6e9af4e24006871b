"""What a model's outputs are compared with: the truth, and predictors; where it is wrong, and layer by layer."""

from __future__ import annotations

from math import inf

from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import (
    Observations,
    Ridge,
    View,
    agreement_by_layer,
    find_agreement,
)
from ridgeformer.analysis.in_context.views import NOTHING, shortened
from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.language.names import MODEL
from ridgeformer.kernels import Linear

MEASURES = {
    "accuracy": "share of queries whose label is right, mean over prompts",
    "outputs": "correlation of outputs and predictions over the queries of a prompt",
    "outputs given truth": "the same after the true labels are regressed out of both",
    "wrong together": "share of wrong predictions among the queries at which the model is wrong, label bias centred",
    "wrong queries": "number of queries at which the model is wrong, label bias centred",
    "wrong at all": "share of wrong predictions among all queries, label bias centred",
    "outputs by layer": "correlation of outputs and predictions of similarity over the queries of a prompt, at each layer",
    "outputs given truth by layer": "the same after the true labels are regressed out of both",
}


def accuracies(
    said: Float[Tensor, "batch q"], truth: Float[Tensor, "batch q"]
) -> dict[str, Float[Tensor, " batch"]]:
    """The share of queries on the side of the truth, −1 or 1, with the prompt's label bias kept and centred away."""
    centred = said - said.mean(-1, keepdim=True)
    return {
        bias: (values.sign() == truth).double().mean(-1)
        for bias, values in (("kept", said), ("centred", centred))
    }


def add_outputs(
    seen: Observations, predictions: dict[str, Float[Tensor, "batch q"]], out: Collector
) -> None:
    """Accuracies, whether outputs follow predictors, and whether these are wrong where the model is.

    The control of the last is how often a predictor is wrong at all.
    """
    truth = seen.truth
    assert truth is not None
    for name, said in {MODEL: seen.outputs.double(), **predictions}.items():
        for bias, right in accuracies(said, truth).items():
            out.add("accuracy", name, right, name != MODEL, bias=bias)
    missed = (seen.outputs - seen.outputs.mean(-1, keepdim=True)).sign() * truth < 0
    out.exact("wrong queries", MODEL, float(missed.sum()))
    for name, said in predictions.items():
        agreement = find_agreement(seen.outputs, said, truth, seed=out.seed)
        out.add("outputs", name, agreement.within)
        out.add("outputs given truth", name, agreement.given_truth)
        out.add("wrong together", name, agreement.sides)
        wrong = (said - said.mean(-1, keepdim=True)).sign() * truth < 0
        out.add("wrong at all", name, wrong.double().mean(-1), True)


def add_output_layers(trained: Observations, untrained: Observations, out: Collector) -> None:
    """Do outputs follow similarity of isolated features? At each layer, in the view of the figure of influence."""
    for name, seen in {"isolated": trained, "isolated, untrained": untrained}.items():
        views = [View(Linear(), layer, "prompt", unit=True) for layer in range(seen.layers)]
        found = agreement_by_layer(seen, views, lambda view: Ridge(inf, view.kernel), seed=out.seed)
        for view in views:
            control, agreement = seen is untrained, found[view.label]
            where = {"layer": view.layer}
            out.add("outputs by layer", name, agreement.within, control, **where)
            out.add("outputs given truth by layer", name, agreement.given_truth, control, **where)


def centred_unit(
    supports: Float[Tensor, "batch k p"], queries: Float[Tensor, "batch q p"]
) -> tuple[Float[Tensor, "batch k p"], Float[Tensor, "batch q p"]]:
    """Features less the mean of their prompt's supports, and of length 1; 0 where they are that mean, but for round-off."""
    longest = max(float(x.norm(dim=-1).max()) for x in (supports, queries))
    mean = supports.mean(1, keepdim=True)
    a, b = (shortened(x - mean, NOTHING * longest, unit=True) for x in (supports, queries))
    return a, b
