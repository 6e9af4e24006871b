"""Is a candidate's trajectory in the stream, step after step, and does it end in the model's prediction?

For each step t of a candidate, and each layer, a readout looks for what the candidate would hold after that step
(predictions at the queries, or coefficients, fitted values or images of features at the supports). A monotone
alignment says from which layer each step is read. Errors are counted in units of what is *new* in a step, the
mean square of the change from the step before, because near the solution all candidates are alike. The
model's own prediction must be that of the candidate's last step; its error is counted as that of one more step.

    misfit = (Σ_t e_t + e_prediction)/(T + 1),    e_t = mean (readout − s_t)² / mean over t of (s_t − s_{t−1})²

Readouts are fitted on one part of the prompts. The candidate's numbers (λ, step size, kernel width), its number of
steps, the layers and the kind of quantity are chosen on a second part. The misfit is that of a third part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.optimize
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

FIRST_STRETCHES = tuple(np.log([1.0, 1.5, 3.0, 10.0, 40.0]))
"""A search first tries these multiples of the largest eigenvalue as the upper end of the interval."""

EVALUATIONS = 60
"""So many settings are tried after that."""

TINY = 1e-300


@dataclass(frozen=True)
class Evidence:
    """A subject's answers and streams on prompts, prepared for readouts."""

    prompt: Prompt
    split: Split
    predictions: Float[Tensor, "batch q r"]
    readouts: Mapping[str, Readouts]
    places: Mapping[str, Tensor]
    embedded: Mapping[str, Float[Tensor, "batch n d"]]
    layers: int

    @staticmethod
    def of(reading: Reading, prompt: Prompt) -> Evidence:
        split = Split.of(len(prompt))
        streams = {"queries": reading.queries, "supports": reading.supports}
        places = {name: spread(x.shape[2]) for name, x in streams.items()}
        readouts = {name: Readouts(x[:, :, places[name]], split.fit) for name, x in streams.items()}
        predictions = reading.predictions.double()
        embedded = {name: x[0, :, places[name]].double() for name, x in streams.items()}
        return Evidence(
            prompt.to(torch.float64), split, predictions, readouts, places, embedded, reading.layers
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
    errors: Float[Tensor, "steps1 score"]
    """For each prompt that scores: e_t of every step, and that of the prediction."""
    unexplained: float
    """The mean squared distance of the prediction from the candidate's, over its own mean square."""
    null: Float[Tensor, "steps score"]
    """e_t of every step, read from the embedding and the candidate's own last step alone."""

    @property
    def interior(self) -> float:
        """How much is left of the errors with which the ends of the trajectory tell its middle; near 0 for
        a trajectory that is there, 1 for one of which the layers between tell nothing."""
        return float(self.errors[:-1].mean() / self.null.mean().clamp(min=TINY))

    @property
    def by_prompt(self) -> Float[Tensor, " score"]:
        return self.errors.mean(0)

    @property
    def misfit(self) -> float:
        return float(self.by_prompt.mean())


def fit(evidence: Evidence, candidate: Candidate, setting: Setting, steps: int) -> Fit:
    """The candidate with the numbers that suit the subject best on the prompts that choose."""
    strides = (1, 2) if candidate.most_steps is None else (1,)
    free = candidate.free(evidence.prompt, setting)

    def at(by: Mapping[str, float]) -> Choice:
        return choose(evidence, candidate, setting.moved(by), steps, strides)

    tried: list[tuple[float, dict[str, float]]] = []

    def attempt(by: dict[str, float]) -> float:
        cost = at(by).cost
        tried.append((cost, by))
        return cost

    for stretch in FIRST_STRETCHES if "hi" in free else (0.0,):
        attempt({"hi": stretch})
    best = min(tried, key=lambda one: one[0])[1]
    if free:
        start = np.array([best.get(name, 0.0) for name in free])
        scipy.optimize.minimize(
            lambda x: attempt(dict(zip(free, x.tolist(), strict=True))),
            start,
            method="Nelder-Mead",
            options={
                "maxfev": EVALUATIONS,
                "xatol": 1e-6,
                "fatol": 1e-12,
                "initial_simplex": start
                + 0.3 * np.vstack([np.zeros(len(free)), np.eye(len(free))]),
            },
        )
    return at(min(tried, key=lambda one: one[0])[1]).scored(evidence)


@dataclass(frozen=True)
class Choice:
    """What the prompts that choose make of a candidate at one setting."""

    candidate: Candidate
    setting: Setting
    stride: int
    cost: float
    layers: tuple[int, ...]
    names: tuple[str, ...]
    signals: Mapping[str, Signal]
    """Of the steps that are looked for, with the start."""

    def scored(self, evidence: Evidence) -> Fit:
        errors = {
            name: errors_of(evidence, s, evidence.split.score) for name, s in self.signals.items()
        }
        steps = [
            errors[name][layer, t]
            for t, (name, layer) in enumerate(zip(self.names, self.layers, strict=True))
        ]
        last, unexplained = of_prediction(
            evidence, self.signals["predictions"][1], evidence.split.score
        )
        ends = {
            name: errors_of_ends(evidence, s, evidence.split.score)
            for name, s in self.signals.items()
        }
        return Fit(
            self.candidate,
            self.setting,
            len(self.layers) * self.stride,
            self.stride,
            self.layers,
            self.names,
            torch.stack([*steps, last]),
            unexplained,
            torch.stack([ends[name][t] for t, name in enumerate(self.names)]),
        )


def choose(
    evidence: Evidence, candidate: Candidate, setting: Setting, steps: int, strides: tuple[int, ...]
) -> Choice:
    """The number of steps, the stride, and for every step the layer and the quantity that is read."""
    every = candidate.signals(evidence.prompt, setting, steps * max(strides))
    choices = []
    for stride in strides:
        signals = {name: (place, x[::stride][: steps + 1]) for name, (place, x) in every.items()}
        choices.append(choose_layers(evidence, candidate, setting, stride, signals))
    # A longer stride asks less of the subject, and is taken only if it explains much more.
    return min(choices, key=lambda c: c.cost * (1.0 if c.stride == 1 else 2.0))


def choose_layers(
    evidence: Evidence,
    candidate: Candidate,
    setting: Setting,
    stride: int,
    signals: Mapping[str, Signal],
) -> Choice:
    part = evidence.split.choose
    predictions = signals["predictions"][1]
    away = (evidence.predictions[part] - predictions[:, part]).square().mean((1, 2, 3))
    last = max(1, int(torch.nan_to_num(away, nan=torch.inf).argmin()))
    kept = {name: (place, x[: last + 1]) for name, (place, x) in signals.items()}
    costs = {name: errors_of(evidence, s, part).mean(-1).numpy() for name, s in kept.items()}
    names = list(costs)
    stacked = np.nan_to_num(np.stack([costs[name] for name in names]), nan=1e9, posinf=1e9)
    path = align(stacked.min(0))
    which = [int(stacked[:, layer, t].argmin()) for t, layer in enumerate(path)]
    steps = [
        float(stacked[kind, layer, t])
        for t, (kind, layer) in enumerate(zip(which, path, strict=True))
    ]
    end = float(of_prediction(evidence, kept["predictions"][1], part)[0].mean())
    cost = (sum(steps) + end) / (len(steps) + 1)
    return Choice(
        candidate,
        setting,
        stride,
        cost if np.isfinite(cost) else 1e9,
        tuple(path),
        tuple(names[kind] for kind in which),
        kept,
    )


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


def of_prediction(
    evidence: Evidence, predictions: Tensor, prompts: slice
) -> tuple[Float[Tensor, " some"], float]:
    """For each prompt the error of the last step as the subject's prediction, in the units of e_t; and
    the mean of these errors over the mean square of the predictions."""
    wanted = evidence.predictions[prompts]
    away = (wanted - predictions[-1, prompts]).square().sum(-1).mean(-1)
    size = max(float(wanted.square().sum(-1).mean()), TINY)
    return away / new_part(predictions, prompts), float(away.mean()) / size
