"""What each layer of a model says of its final prediction: one linear readout per layer.

    f_ℓ(x) = h_ℓ(x)·w_ℓ + b_ℓ,    (w_ℓ, b_ℓ) = argmin Σ (h_ℓ(x)·w + b − f(x))² / n + penalty·|w|²

h_ℓ is the stream at a query after layer ℓ, and f is the model's own prediction, so that nothing but the
model decides what is looked for. Columns have variance 1 when the penalty is counted, and constant ones
are dropped. Readouts are fitted on the first half of the prompts and used on the second half.

A prompt is fitted together with its mirror image, in which −y takes the place of y. What does not depend
on y is then uncorrelated with every odd function of y, and gets no weight by chance: readouts of a model
that is linear in y are linear in y.

A fitted readout is stronger than the layer. It blends all that the stream holds, such as f_t and the next
direction, and is compared only with other models that are read in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.readouts import Regression, Split
from ridgeformer.models import Subject
from ridgeformer.tasks import Prompt

PENALTY = 1e-8
"""The penalty of the ridge regression, for columns of variance 1 and a mean squared error."""

Read = Callable[[Prompt], Float[Tensor, "layers batch q r"]]
"""What reads a prediction after each layer or step. The exact iterates of a solver can be read like this,
too."""


@dataclass(frozen=True)
class LayerReadouts:
    """One affine map per layer, from a stream of width d to r outputs."""

    weights: Float[Tensor, "layers d r"]
    intercepts: Float[Tensor, "layers r"]

    def __call__(
        self, streams: Float[Tensor, "layers batch n d"]
    ) -> Float[Tensor, "layers batch n r"]:
        read = torch.einsum("lbnd,ldr->lbnr", streams.double(), self.weights)
        return read + self.intercepts[:, None, None]


def fit_readouts(
    streams: Float[Tensor, "layers batch n d"],
    targets: Float[Tensor, "batch n r"],
    penalty: float = PENALTY,
) -> LayerReadouts:
    """The readouts that are nearest to the targets, layer by layer, in float64."""
    regression = Regression(streams.flatten(1, 2), penalty)
    return LayerReadouts(*regression.affine(targets.double().flatten(0, 1)))


def halves(prompt: Prompt) -> tuple[Prompt, Prompt]:
    """The prompts that readouts and filters are fitted on, and those that score them."""
    split = Split.of(len(prompt), chooses=False)
    return prompt[split.fit], prompt[split.score]


def mirrored(prompt: Prompt) -> Prompt:
    """The prompts, and after them their mirror images in y."""
    return Prompt(
        prompt.phi.repeat(2, 1, 1),
        torch.cat([prompt.y, -prompt.y]),
        prompt.phi_query.repeat(2, 1, 1),
    )


def query_reader(subject: Subject, prompt: Prompt, penalty: float = PENALTY) -> Read:
    """What reads the layers of a subject at the queries; its readouts are fitted on these prompts.

    It has an entry for each layer and, at the end, the model's own predictions.
    """
    reading = subject.read(mirrored(prompt))
    readouts = fit_readouts(reading.queries[1:], reading.predictions, penalty)

    def read(other: Prompt) -> Tensor:
        found = subject.read(other)
        return torch.cat([readouts(found.queries[1:]), found.predictions.double()[None]])

    return read


def support_reader(subject: Subject, prompt: Prompt, penalty: float = PENALTY) -> Read:
    """What reads the residuals of the model's fit off its layers, at the supports.

    The target is y_i − f(x_i), where f(x_i) is the model's own answer to a query at the support x_i. For
    ridge regression it is λα_i. Entries are as in `query_reader`; the last is the residual itself.
    """
    both = mirrored(prompt)
    readouts = fit_readouts(subject.read(both).supports[1:], own_residual(subject, both), penalty)

    def read(other: Prompt) -> Tensor:
        layers = readouts(subject.read(other).supports[1:])
        return torch.cat([layers, own_residual(subject, other)[None]])

    return read


def own_residual(subject: Subject, prompt: Prompt) -> Float[Tensor, "batch k r"]:
    """y_i − f(x_i) at the supports, f the model's own fit."""
    fit = subject.predict(Prompt(prompt.phi, prompt.y, prompt.phi))
    return prompt.y.double() - fit.double()
