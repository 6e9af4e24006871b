"""Is a candidate's trajectory in the stream, step after step, and does it end in the model's prediction?

For each step t of a candidate, and each layer, a readout looks for what the candidate would hold after that step
(predictions at the queries, or coefficients, fitted values or images of features at the supports). A monotone
alignment says from which layer each step is read. Errors are counted in units of what is *new* in a step, the
mean square of the change from the step before, because near the solution all candidates are alike. The
model's own prediction must be that of the candidate's last step; its error is in units of its own mean square.

    misfit = mean over t of e_t + mean (prediction − f_T)² / mean prediction²,
    e_t = mean (readout − s_t)² / mean over t of (s_t − s_{t−1})²

Readouts are fitted on one part of the prompts. The candidate's numbers (λ, step size, kernel width), its number of
steps, the layers and the kind of quantity are chosen on a second part. The misfit is that of a third part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.alignment import align
from ridgeformer.analysis.candidates import Candidate, Setting, Signal
from ridgeformer.analysis.readouts import Readouts, Split
from ridgeformer.models import Reading
from ridgeformer.tasks import Prompt

TOKENS = 8
"""So many supports and queries of each prompt are read."""

MOST_LAYERS = 32
"""Of a deeper model so many layers are read, evenly spread."""

TINY, HOPELESS = 1e-300, 1e9

CHANCE = 0.1
"""Readouts may tell up to this part of noise, on prompts that did not fit them, by chance."""

NOTHING = 1e-7
"""Errors below this are round-off, and what is left of the search."""


@dataclass(frozen=True)
class Evidence:
    """A subject's answers and streams on prompts, prepared for readouts."""

    prompt: Prompt
    split: Split
    predictions: Float[Tensor, "batch q r"]
    readouts: Mapping[str, Readouts]
    places: Mapping[str, Tensor]
    embedded: Mapping[str, Float[Tensor, "batch n d"]]
    layers: list[int]
    """Those that are read; 0 is the embedding."""

    @staticmethod
    def of(reading: Reading, prompt: Prompt) -> Evidence:
        split = Split.of(len(prompt))
        layers = (
            torch.linspace(0, reading.layers, min(reading.layers, MOST_LAYERS) + 1).round().long()
        )
        streams = {"queries": reading.queries[layers], "supports": reading.supports[layers]}
        places = {name: spread(x.shape[2]) for name, x in streams.items()}
        readouts = {name: Readouts(x[:, :, places[name]], split.fit) for name, x in streams.items()}
        predictions = reading.predictions.double()
        embedded = {name: x[0, :, places[name]].double() for name, x in streams.items()}
        return Evidence(
            prompt.to(torch.float64),
            split,
            predictions,
            readouts,
            places,
            embedded,
            layers.tolist(),
        )


def spread(tokens: int) -> Tensor:
    """Up to `TOKENS` positions, evenly spread."""
    return torch.linspace(0, tokens - 1, min(tokens, TOKENS)).round().long()


@dataclass(frozen=True)
class Fit:
    """A candidate with what was fitted of it, and how far the subject is from it."""

    candidate: Candidate
    setting: Setting
    steps: int
    stride: int
    """So many of the candidate's steps lie between two that are looked for."""
    layers: tuple[int, ...]
    """The layer from which each step is read."""
    signals: tuple[str, ...]
    """What is read there."""
    freedom: int
    """The number of numbers that were fitted."""
    errors: Float[Tensor, "steps score"]
    """e_t of every step, for each prompt that scores."""
    away: Float[Tensor, " score"]
    """The squared distance of the prediction from the candidate's, over the mean square of predictions."""
    null: Float[Tensor, "steps score"]
    """e_t of every step, read from the embedding and the candidate's own last step alone."""
    systematic: float
    """The part of the prediction that is not the candidate's, and that is no noise: the last layer tells what
    the model predicts without noise, and the candidate's steps what it should predict."""

    @property
    def interior(self) -> float:
        """How much is left of the errors with which the ends of the trajectory tell its middle; near 0 for
        a trajectory that is there, 1 for one of which the layers between tell nothing."""
        if len(self.layers) == 1:
            return 0.0  # nothing is between the ends
        left, ends = float(self.errors.mean()), float(self.null.mean())
        if ends > NOTHING:
            return left / ends
        return 0.0 if left <= NOTHING else inf

    @property
    def unexplained(self) -> float:
        """How much of the prediction the candidate's last step leaves unexplained."""
        return float(self.away.mean())

    @property
    def by_prompt(self) -> Float[Tensor, " score"]:
        return self.errors.mean(0) + self.away

    @property
    def misfit(self) -> float:
        return float(self.by_prompt.mean())


@dataclass(frozen=True)
class Choice:
    """What the prompts that choose make of a candidate at one setting."""

    candidate: Candidate
    setting: Setting
    stride: int
    cost: float
    inside: float
    """The part of the cost that is due to the layers."""
    layers: tuple[int, ...]
    names: tuple[str, ...]
    signals: Mapping[str, Signal]
    """Of the steps that are looked for, with the start."""

    def systematic(self, evidence: Evidence, prompts: slice) -> float:
        return systematic(evidence, self.signals["predictions"][1], prompts)

    def scored(self, evidence: Evidence) -> Fit:
        errors = {
            name: errors_of(evidence, s, evidence.split.score) for name, s in self.signals.items()
        }
        steps = [
            errors[name][layer, t]
            for t, (name, layer) in enumerate(zip(self.names, self.layers, strict=True))
        ]
        ends = {
            name: errors_of_ends(evidence, s, evidence.split.score)
            for name, s in self.signals.items()
        }
        return Fit(
            self.candidate,
            self.setting,
            len(self.layers) * self.stride,
            self.stride,
            tuple(evidence.layers[layer] for layer in self.layers),
            self.names,
            len(self.candidate.free(evidence.prompt, self.setting)),
            torch.stack(steps),
            away(evidence, self.signals["predictions"][1], evidence.split.score),
            torch.stack([ends[name][t] for t, name in enumerate(self.names)]),
            self.systematic(evidence, evidence.split.score),
        )


def choices(
    evidence: Evidence,
    candidate: Candidate,
    setting: Setting,
    stride: int,
    lasts: Sequence[int],
) -> list[Choice]:
    """For each of these numbers of steps: the layer and the quantity that every step is read from."""
    part = evidence.split.choose
    signals = {
        name: (place, values[::stride])
        for name, (place, values) in candidate.signals(
            evidence.prompt, setting, max(lasts) * stride
        ).items()
    }
    names = list(signals)
    raw, changes = [], []
    for place, values in signals.values():
        read = values[:, :, evidence.places[place]]
        raw.append(evidence.readouts[place].errors(read[1:], part).mean(-1).numpy())
        changes.append((read[1:, part] - read[:-1, part]).square().sum(-1).mean((1, 2)).numpy())
    found = []
    for last in lasts:
        new = [max(float(change[:last].mean()), TINY) for change in changes]
        costs = np.stack([errors[:, :last] / size for errors, size in zip(raw, new, strict=True)])
        costs = np.nan_to_num(costs, nan=HOPELESS, posinf=HOPELESS)
        path = align(costs.min(0))
        which = [int(costs[:, layer, t].argmin()) for t, layer in enumerate(path)]
        inside = float(np.mean([costs[kind, path[t], t] for t, kind in enumerate(which)]))
        kept = {name: (place, values[: last + 1]) for name, (place, values) in signals.items()}
        end = float(away(evidence, kept["predictions"][1], part).mean())
        found.append(
            Choice(
                candidate,
                setting,
                stride,
                inside + end if np.isfinite(end) else HOPELESS,
                inside,
                tuple(path),
                tuple(names[kind] for kind in which),
                kept,
            )
        )
    return found


def residuals(
    evidence: Evidence, choice: Choice, setting: Setting
) -> tuple[Float[Tensor, " inside"], Float[Tensor, " end"]]:
    """What the readouts of a choice, and its last step, miss at another setting.

    The squares of both sum up to both parts of its cost, if every step is read where the choice reads it.
    """
    part, last = evidence.split.choose, len(choice.layers)
    found = choice.candidate.signals(evidence.prompt, setting, last * choice.stride)
    signals = {name: (place, values[:: choice.stride]) for name, (place, values) in found.items()}
    missed = []
    for t, (name, layer) in enumerate(zip(choice.names, choice.layers, strict=True)):
        place, values = signals[name]
        values = values[:, :, evidence.places[place]]
        left = evidence.readouts[place].residuals(values[t + 1], layer, part)
        tokens = left.shape[0] * left.shape[1]
        missed.append(left.flatten() / (new_part(values, part) * tokens * last) ** 0.5)
    wanted = evidence.predictions[part]
    away = wanted - signals["predictions"][1][-1, part]
    return torch.cat(missed), (away / wanted.norm().clamp(min=TINY)).flatten()


def errors_of(
    evidence: Evidence, signal: Signal, prompts: slice
) -> Float[Tensor, "layers steps some"]:
    """e_t of every step from every layer, for each prompt."""
    place, values = signal
    values = values[:, :, evidence.places[place]]
    new = new_part(values, prompts)
    return evidence.readouts[place].errors(values[1:], prompts) / new


def errors_of_ends(
    evidence: Evidence, signal: Signal, prompts: slice
) -> Float[Tensor, "steps some"]:
    """e_t of every step, from the embedding and the last step."""
    place, values = signal
    values = values[:, :, evidence.places[place]]
    columns = torch.cat([evidence.embedded[place], values[-1]], dim=-1)
    errors = Readouts(columns[None], evidence.split.fit).errors(values[1:], prompts)[0]
    return errors / new_part(values, prompts)


def new_part(values: Float[Tensor, "steps1 batch n c"], prompts: slice) -> float:
    """The mean square of what a step changes, over steps, prompts and tokens."""
    change = values[1:, prompts] - values[:-1, prompts]
    return max(float(change.square().sum(-1).mean()), TINY)


def away(evidence: Evidence, predictions: Tensor, prompts: slice) -> Float[Tensor, " some"]:
    """For each prompt how far the last step is from the subject's prediction, squared and over the mean
    square of these."""
    wanted = evidence.predictions[prompts]
    size = max(float(wanted.square().sum(-1).mean()), TINY)
    return (wanted - predictions[-1, prompts]).square().sum(-1).mean(-1) / size


def systematic(
    evidence: Evidence, predictions: Float[Tensor, "steps1 batch q r"], prompts: slice
) -> float:
    """How much of the mean square of predictions is a difference from the last step that the last layer and
    the candidate's own steps tell, together, on these prompts; 0 if that may be chance."""
    places = evidence.places["queries"]
    steps = predictions[1:, :, places].permute(1, 2, 0, 3).flatten(2)
    known = torch.cat([evidence.readouts["queries"].columns[-1], steps], dim=-1)
    rest = (evidence.predictions - predictions[-1])[:, places]
    untold = Readouts(known[None], evidence.split.fit).errors(rest[None], prompts)[0, 0]
    size = max(float(evidence.predictions[prompts].square().sum(-1).mean()), TINY)
    left = rest[prompts].square().sum(-1).mean(-1)
    told = float((left - untold).mean())
    return told / size if told > CHANCE * float(left.mean()) else 0.0
