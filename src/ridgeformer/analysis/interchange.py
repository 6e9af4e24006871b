"""Interchange: is a candidate's state a cause of the prediction, or does it only go along with it?

Prompt B has the features and queries of prompt A and other targets. The state that the candidate has on B after
step t is put into the stream of the subject that works on A, at the layer where the state is written, and the
subject goes on. The candidate says what must come out: it takes its remaining steps on A's system, from B's
state. What is compared is the effect, the changed prediction less the unchanged one.

The stream moves along the patterns of the state (`patterns`), by q_B − q_A in the unit in which A keeps q. So
everything else stays as it is in A: the targets, and the scalars of the method, which compiled models keep at a
token of their own. The candidate's mixed state is the same mixture. Only supports are changed: whatever reaches
the prediction must be read from them, and predictions that a query holds already stay A's. So coefficients that
only add up to a prediction, as those of conjugate gradients do, are no part of what is exchanged.

There are two controls: the same change in random directions, others in each prompt, and the right change at the
layer of another step. Neither is without effect. Whatever spoils A's state costs A's own share of the prediction,
which is a part of every predicted effect. So controls are held against what is B's alone, the contrast: the
prediction with B's state less that with the state of B's mirror image, in which −y takes the place of y. And a
linear recurrence that is changed one step later ends up much alike. So at the layer of another step only that part
of the contrast counts which the candidate does not predict for the same change after that step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.effects import (
    correlation_estimate,
    correlation_estimates,
    pooled_correlation,
    rms,
    slope_estimate,
    without,
)
from ridgeformer.analysis.exchanges import (
    Exchange,
    Held,
    Move,
    Run,
    columns,
    turn,
    vectors,
)
from ridgeformer.analysis.patterns import Pair, Units, find_patterns, read_direction, read_error
from ridgeformer.analysis.readouts import Split
from ridgeformer.models import Subject
from ridgeformer.statistics import Estimate
from ridgeformer.tasks import Prompt, generator_of
from ridgeformer.types import Refusal

DRAWS = 8
"""So many random directions are tried in each prompt."""

NO_EFFECT = 1e-9
"""What changes the candidate's prediction by less than this part of it has no effect."""

WHOLE, NEARLY, ROUND_OFF = 1e-4, 10.0, 1e-12
"""Where the least error is smaller than the first of these, the state is there in full. Later layers may hold it
still, and the first whose error is within this factor of the least, or round-off, is the one that writes it."""


@dataclass(frozen=True)
class OtherLayer:
    """The right change at the layer of another step."""

    step: int
    layer: int
    correlation: Estimate
    """Of the contrast there with the one that is predicted for the right layer."""
    own_part: Estimate
    """Of the contrast there with what is predicted for the right step alone, and not for the other one too;
    undefined if that is next to nothing."""
    own_part_at_right_layer: Estimate
    """The same for the contrast at the right layer."""


@dataclass(frozen=True)
class Interchange:
    """What happened when the state after one step was exchanged, on prompts that were not fitted."""

    step: int
    layer: int
    quantities: tuple[str, ...]
    """What was exchanged: the parts of the state that later steps use. One that cannot be told from the others
    stayed as it was."""
    read_error: float
    """The part of the mean square that a readout of that layer misses, of the quantity that it reads worst."""
    size: float
    """The predicted effect, root mean square, over that of the prediction."""
    correlation: Estimate
    """Of the predicted effect with the actual one, over prompts and queries."""
    slope: Estimate
    """Of the actual effect on the predicted one."""
    contrast: Estimate
    """The correlation of the predicted contrast with the actual one."""
    random_direction: Estimate
    """The control: the same correlation if each prompt's change is in random directions; undefined if that has
    no effect."""
    random_size: float
    """How large these contrasts are, root mean square, over the predicted ones."""
    elsewhere: Estimate
    """The control: the correlation of contrasts at the layers of other steps, each of size 1, with what is predicted
    for the right step alone; undefined if the candidate predicts nothing else for the other steps."""
    other_layers: tuple[OtherLayer, ...]


@dataclass(frozen=True)
class Interchanges:
    """Interventions that exchange a candidate's state between prompts, and what a model made of them."""

    subject: str
    candidate: str
    prompts: int
    """So many scored; as many again chose layers, and twice as many fitted patterns."""
    seed: int
    steps: tuple[Interchange, ...]
    left_out: tuple[int, ...]
    """Steps whose state the candidate does not use again, whose state is a multiple of the targets, or that are
    read from the last layer, after which nothing can follow."""


def find_interchanges(
    subject: Subject,
    prompt: Prompt,
    other: Prompt,
    candidate: Candidate,
    setting: Setting,
    steps: int,
    *,
    seed: int,
) -> Interchanges:
    """Exchanges the state after each step of a candidate, and compares what follows with what must.

    `other` has the features and queries of `prompt` and other targets. A half of the prompts fits patterns, a
    quarter chooses layers, and the effects are those of the last quarter.
    """
    if not all(torch.equal(getattr(prompt, n), getattr(other, n)) for n in ("phi", "phi_query")):
        raise Refusal(
            "States are exchanged between prompts of the same features and queries: draw only the targets "
            "anew, as `task.relabel` does."
        )
    study = Study(subject, prompt, other, candidate, setting, steps)
    found = [study.exchange(t) for t in range(1, steps + 1)]
    useful = [exchange for exchange in found if exchange is not None]
    taken = {exchange.step for exchange in useful}
    return Interchanges(
        subject.name,
        candidate.name,
        len(study.scored),
        seed,
        tuple(study.result(exchange, useful, seed) for exchange in useful),
        tuple(t for t in range(1, steps + 1) if t not in taken),
    )


class Study:
    """One subject and one candidate on pairs of prompts."""

    def __init__(
        self,
        subject: Subject,
        prompt: Prompt,
        other: Prompt,
        candidate: Candidate,
        setting: Setting,
        steps: int,
    ) -> None:
        self.subject = subject
        self.split = Split.of(len(prompt))
        self.scored = prompt[self.split.score]
        if len(self.scored) < 2:
            raise Refusal(f"Effects are compared over prompts: give at least 8, got {len(prompt)}.")
        mine, others = subject.read(prompt), subject.read(other)
        self.supports = (mine.supports.double(), others.supports.double())
        self.unchanged = mine.predictions[self.split.score].double()
        prompt, other = prompt.to(torch.float64), other.to(torch.float64)
        self.targets = columns(other.y - prompt.y)
        self.mine = Run.of(candidate, setting, prompt, steps)
        self.other = Run.of(candidate, setting, other, steps)
        self.here = Run.of(candidate, setting, prompt[self.split.score], steps)
        self.size = rms(self.here.predictions(self.here.states[-1]))

    def used(self, t: int) -> dict[str, tuple[Tensor, Tensor]]:
        """The parts of the state after step t, in both prompts, that later steps make use of.

        A part that is only kept for the prediction, such as the coefficients of conjugate gradients, has the
        same effect whenever it is moved, and says nothing of a step. After the last step there is no other.
        """
        mine, other = self.mine.vectors(t), self.other.vectors(t)
        last = t == len(self.mine.states) - 1
        now = self.mine.predictions(self.mine.states[t])
        found = {}
        for name in mine.keys() & other.keys():
            by = {name: other[name] - mine[name]}
            effect = self.mine.effect(t, by)
            kept = 0.0 if last else self.mine.predictions(self.mine.moved(t, by)) - now
            if min(rms(effect), rms(effect - kept)) > NO_EFFECT * self.size:
                found[name] = (mine[name], other[name])
        return {name: found[name] for name in mine if name in found}

    def exchange(self, t: int) -> Exchange | None:
        """The layer that writes the state after step t, and what is exchanged there."""
        used = self.used(t)
        if not used:
            return None
        state = Pair(*(torch.cat([columns(pair[i]) for pair in used.values()]) for i in (0, 1)))
        held = [self.held(layer, state) for layer in range(len(self.supports[0]))]
        layer = first_or_least([one.error for one in held])
        if layer == len(held) - 1:
            return None
        fit, score = self.split.fit, self.split.score
        written = state.times(held[layer].units)
        patterns = find_patterns(
            self.change(layer)[fit], self.beside(t, set(used))[:, fit], written[fit].difference
        )
        distinct = patterns.distinct & held[layer].single
        if not distinct.any():
            return None
        units = held[layer].units.mine[:, score, None]

        def move(goal: Tensor) -> Move:
            change = torch.where(distinct[:, None, None], goal - state.mine[:, score], 0.0)
            by = dict(zip(used, vectors(change, len(used)), strict=True))
            return Move(
                {name: part for name, part in by.items() if part.any()},
                torch.einsum("cbn,cd->bnd", change * units, patterns.state),
            )

        goal = state.other[:, score]
        return Exchange(t, layer, held[layer].error, move(goal), move(-goal))

    def beside(self, t: int, used: Collection[str]) -> Float[Tensor, "columns batch k"]:
        """What else of B the supports may hold that is not A's: targets, the rest of the state, fitted values."""
        mine, other = self.mine.vectors(t), self.other.vectors(t)
        rest = [other[n] - mine[n] for n in mine if n in other and n not in used]
        fitted = self.mine.machine.kernel_product(other["alpha"] - mine["alpha"])
        return torch.cat([self.targets, *map(columns, [*rest, fitted])])

    def change(self, layer: int) -> Float[Tensor, "batch k d"]:
        """How the streams of B differ from those of A, at the supports."""
        mine, other = (stream[layer] for stream in self.supports)
        return other - mine

    def held(self, layer: int, state: Pair) -> Held:
        """How well the state can be read from this layer, and in which units it is there."""
        fit, choose = self.split.fit, self.split.choose
        if not self.mine.machine.renewed:
            ones = torch.ones_like(state.mine[..., 0])
            error = read_error(self.change(layer), state.difference, fit, choose)
            return Held(error, Units(ones, ones), torch.ones(len(ones), dtype=torch.bool))
        streams, units, errors, single = self.supports, [], [], []
        for mine, other in zip(state.mine, state.other, strict=True):
            readout = read_direction(
                torch.cat([stream[layer, fit] for stream in streams]),
                torch.cat([mine[fit], other[fit]]),
            )
            both = list(zip(streams, (mine, other), strict=True))
            units.append([readout.units(stream[layer], value) for stream, value in both])
            errors.append(
                max(readout.missed(stream[layer, choose], value[choose]) for stream, value in both)
            )
            single.append(readout.single)
        found = Units(*(torch.stack([one[i] for one in units]) for i in (0, 1)))
        return Held(max(errors), found, torch.tensor(single))

    def result(self, exchange: Exchange, useful: Sequence[Exchange], seed: int) -> Interchange:
        step, layer, moves = exchange.step, exchange.layer, exchange.moves
        predicted = self.here.effect(step, exchange.to_other.by)
        actual = self.effect(layer, exchange.to_other)
        expected, found = self.predicted_contrast(step, moves), self.contrast(layer, moves)
        turned = torch.cat(
            [self.contrast(layer, self.turned(exchange, seed, draw)) for draw in range(DRAWS)], 1
        )
        others, apart = [], []
        for other in useful:
            if other.layer == layer:
                continue
            there = self.contrast(other.layer, moves)
            own = without(expected, self.contrasts_after(other.step, moves))
            apart.append((own, there))
            pairs = [(expected, there), (own, there), (own, found)]
            others.append(OtherLayer(other.step, other.layer, *correlation_estimates(pairs, seed)))
        correlation, contrast = correlation_estimates(
            [(predicted, actual), (expected, found)], seed
        )
        return Interchange(
            step,
            layer,
            tuple(exchange.to_other.by),
            exchange.read_error,
            rms(predicted) / self.size,
            correlation,
            slope_estimate(predicted, actual, seed),
            contrast,
            correlation_estimate(expected.repeat(1, DRAWS, 1), turned, seed),
            rms(turned) / rms(expected),
            pooled_correlation(apart, seed),
            tuple(others),
        )

    def predicted_contrast(
        self, step: int, moves: Sequence[Move], into: Mapping[str, str] | None = None
    ) -> Float[Tensor, "batch q r"]:
        """The contrast that the candidate predicts for two moves after a step; `into` says which quantity
        takes the move of which, if not each its own."""
        first, second = (
            move.by if into is None else {there: move.by[name] for name, there in into.items()}
            for move in moves
        )
        return self.here.effect(step, first) - self.here.effect(step, second)

    def contrasts_after(self, step: int, moves: Sequence[Move]) -> list[Tensor]:
        """What the candidate predicts for the same moves after another step: as they are, and with each of
        their parts in the place of each."""
        mine, other = self.mine.vectors(step), self.other.vectors(step)
        places = [n for n in mine if n in other and not torch.equal(mine[n], other[n])]
        swaps = [{name: place} for name in moves[0].by for place in places]
        return [self.predicted_contrast(step, moves, into) for into in (None, *swaps)]

    def turned(self, exchange: Exchange, seed: int, draw: int) -> tuple[Move, Move]:
        """Both moves in the same random directions, others in each prompt."""
        fit, layer = self.split.fit, exchange.layer
        first, second = exchange.moves
        generator = generator_of(seed, exchange.step, draw)
        turned = turn((first.supports, second.supports), self.change(layer)[fit], generator)
        return Move({}, turned[0]), Move({}, turned[1])

    def contrast(self, layer: int, moves: Sequence[Move]) -> Float[Tensor, "batch q r"]:
        first, second = (self.effect(layer, move) for move in moves)
        return first - second

    def effect(self, layer: int, move: Move) -> Float[Tensor, "batch q r"]:
        """The effect on the subject's prediction if the streams after this layer are moved."""

        def change(supports: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
            return supports + move.supports.to(supports), queries

        return self.subject.changed(self.scored, layer, change).double() - self.unchanged


def first_or_least(errors: Sequence[float]) -> int:
    """The layer that writes what is read with these errors."""
    least = min(errors)
    enough = max(NEARLY * least, ROUND_OFF) if least < WHOLE else least
    return next(layer for layer, error in enumerate(errors) if error <= enough)
