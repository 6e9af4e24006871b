"""Subjects whose answer is known: compiled models, disguised or spoilt, and controls that run no solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines import NearestNeighbours
from ridgeformer.models import Change, Reading, Subject
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer


def normal_like(values: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(values.shape, generator=generator, dtype=torch.float64).to(values.dtype)


@dataclass(frozen=True)
class Disguised(Subject, ABC):
    """A subject that is seen through something else."""

    inner: Subject

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    def read(self, prompt: Prompt) -> Reading:
        return self.seen(self.inner.read(prompt))

    def untrained(self, prompt: Prompt, seed: int) -> Subject | None:
        inner = self.inner.untrained(prompt, seed)
        return None if inner is None else replace(self, inner=inner)

    @abstractmethod
    def seen(self, reading: Reading) -> Reading:
        """The reading as it is seen."""


@dataclass(frozen=True)
class Rotated(Disguised):
    """The same model with its residual stream in another orthonormal basis: no channel is aligned."""

    seed: int = 0

    def seen(self, reading: Reading) -> Reading:
        turn = self.turn(reading.queries)
        return replace(reading, queries=reading.queries @ turn, supports=reading.supports @ turn)

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        def turned(supports: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
            turn = self.turn(queries)
            seen = supports @ turn, queries @ turn
            moved = [(new - old) @ turn.mT for new, old in zip(change(*seen), seen, strict=True)]
            return supports + without_round_off(moved[0]), queries + without_round_off(moved[1])

        return self.inner.changed(prompt, layer, turned)

    def turn(self, stream: Float[Tensor, "*shape d"]) -> Float[Tensor, "d d"]:
        width = stream.shape[-1]
        turn: Tensor = torch.linalg.qr(normal_like(stream.new_zeros(width, width), self.seed)).Q
        return turn


ROUND_OFF = 1e-9


def without_round_off(change: Tensor) -> Tensor:
    """The change without entries that are nothing beside its largest one.

    A rotation there and back leaves round-off in every channel. In channels that never vary, such as the flags
    of tokens, compiled weights may multiply it by more than 10¹⁹, since no model ever sees it there.
    """
    largest = change.abs().amax()
    return torch.where(change.abs() > ROUND_OFF * largest, change, 0.0)


@dataclass(frozen=True)
class Noisy(Disguised):
    """Predictions with noise, whose variance is a part of theirs."""

    part: float = 0.01
    seed: int = 0

    def seen(self, reading: Reading) -> Reading:
        return replace(reading, predictions=self.noised(reading.predictions, self.seed))

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        # An intervention is another run, and gets noise of its own.
        return self.noised(self.inner.changed(prompt, layer, change), self.seed + 1)

    def noised(self, predictions: Tensor, seed: int) -> Float[Tensor, "batch q r"]:
        spread = self.part**0.5 * predictions.std()
        noisy: Tensor = predictions + spread * normal_like(predictions, seed)
        return noisy


@dataclass(frozen=True)
class Relayered(Disguised):
    """The same model seen at some of its layers: a layer that is left out is merged with the next one, and
    one that comes twice is followed by an idle one."""

    every: int = 1
    copies: int = 1

    def seen(self, reading: Reading) -> Reading:
        layers = torch.tensor(self.shown(reading.layers))
        return replace(reading, queries=reading.queries[layers], supports=reading.supports[layers])

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        shown = self.shown(self.inner.read(prompt[:1]).layers)
        return self.inner.changed(prompt, shown[layer], change)

    def shown(self, last: int) -> list[int]:
        """The layers of the model inside that are seen, one after the other."""
        kept = [n for n in range(last + 1) if n % self.every == 0 or n == last]
        return [n for n in kept for _ in range(self.copies)]


@dataclass(frozen=True)
class Ensemble(Subject):
    """Two models side by side, whose predictions are averaged."""

    first: Subject
    second: Subject

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.first.name} and {self.second.name}"

    def read(self, prompt: Prompt) -> Reading:
        a, b = self.first.read(prompt), self.second.read(prompt)
        return Reading(
            (a.predictions + b.predictions) / 2,
            beside(a.queries, b.queries),
            beside(a.supports, b.supports),
        )


def beside(
    a: Float[Tensor, "layers batch n d"], b: Float[Tensor, "others batch n e"]
) -> Float[Tensor, "most batch n both"]:
    """The streams of two models in one; the shorter one stays as it ended."""
    most = max(len(a), len(b))
    longer = [torch.cat([x, x[-1:].expand(most - len(x), -1, -1, -1)]) for x in (a, b)]
    return torch.cat(longer, dim=-1)


@dataclass(frozen=True)
class Neighbours(Subject):
    """Means over the 1, 2, 4, … nearest supports, one after the other: similarity, and no system is solved."""

    name = "nearest neighbours"
    layers: int = 4

    def read(self, prompt: Prompt) -> Reading:
        def means(points: Tensor) -> list[Tensor]:
            counts = [min(2**layer, prompt.supports) for layer in range(self.layers)]
            there = Prompt(prompt.phi, prompt.y, points)
            return [NearestNeighbours(count).predict(there).to(points.dtype) for count in counts]

        def stream(points: Tensor, targets: Tensor) -> Tensor:
            known, rows = [points, targets], []
            width = points.shape[-1] + targets.shape[-1] * (self.layers + 1)
            for mean in [None, *means(points)]:
                known += [] if mean is None else [mean]
                row = torch.cat(known, dim=-1)
                rows.append(torch.nn.functional.pad(row, (0, width - row.shape[-1])))
            return torch.stack(rows)

        nothing = prompt.phi_query.new_zeros(*prompt.phi_query.shape[:2], prompt.outputs)
        queries = stream(prompt.phi_query, nothing)
        return Reading(means(prompt.phi_query)[-1], queries, stream(prompt.phi, prompt.y))


def shuffled(transformer: Transformer, seed: int) -> Transformer:
    """The same blocks in another order, which computes nothing in particular."""
    order = torch.randperm(
        transformer.config.n_layers, generator=torch.Generator().manual_seed(seed)
    ).tolist()
    other = Transformer(transformer.config, init="zero").requires_grad_(False)
    other.load_state_dict(transformer.state_dict())
    other.blocks = torch.nn.ModuleList([other.blocks[block] for block in order])
    return other


def perturbed(transformer: Transformer, spread: float, seed: int) -> Transformer:
    """The same transformer with every weight multiplied by 1 plus a normal number of that spread."""
    other = Transformer(transformer.config, init="zero").requires_grad_(False)
    moved = {
        name: value * (1 + spread * normal_like(value, seed + place))
        for place, (name, value) in enumerate(transformer.state_dict().items())
    }
    other.load_state_dict(moved)
    return other
