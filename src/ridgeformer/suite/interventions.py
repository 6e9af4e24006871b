"""Interventions on a model's state, and what must come out of each, by the solver's numerics.

Base and source are two batches of prompts. What the solver has after step t on the source is put in place of what it
has on the base, and the run on the base goes on. The answer comes from the recurrence: its state on the base, with
those parts exchanged, takes the remaining steps on the base's system.

**exchange.** The stream's coordinates in a subspace are those of the run on the source, at the same rows. Source
prompts have the base's features and queries, and other targets. A vector that the model keeps in a unit of its own
arrives in the unit of the base.

**transport.** What a solver in operator space keeps is spread over the tokens: each holds the image of its own
features. Put in its place is what the source's operator, or its weights, make of the base's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.suite.states import Held, Observed, images, residual_of_tokens
from ridgeformer.transformer import Edit, Edits, Transformer


@dataclass(frozen=True)
class Write:
    """Values that the stream is given, as coordinates in some columns at some rows."""

    site: str
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: Float[Tensor, "batch rows m"]


@dataclass(frozen=True)
class Intervention:
    states: tuple[str, ...]
    step: int
    how: str
    writes: tuple[Write, ...]
    expected: Float[Tensor, "batch q r"]

    @property
    def name(self) -> str:
        return f"{'+'.join(self.states)}@{self.step}"


def find_interventions(
    base: Observed, source: Observed, held: Sequence[Held]
) -> list[Intervention]:
    """Every exchange of α_t, of the other vectors of step t, or of what operators hold, that later steps use."""
    if base.space == "operator":
        return transports(base, source, held)
    numerics = base.numerics
    last = numerics.steps if numerics.solver.smooths else numerics.steps - 1
    found = []
    for t in range(1, last + 1):
        now = {place.state: place for place in held if place.step == t}
        alpha = [now.pop("alpha")] if "alpha" in now else []
        for together in (alpha, list(now.values())):
            if together and any(float(source.content(place).abs().max()) for place in together):
                found.append(exchange(base, source, t, together))
    return found


def exchange(base: Observed, source: Observed, t: int, places: Sequence[Held]) -> Intervention:
    changed, writes = {}, []
    for place in places:
        value = source.numerics.value(place.state, t)
        if base.numerics.renews_units:
            value = value * source.unit(place) / base.unit(place)
        changed[place.state] = value
        rows = tuple(base.tokens.rows(place.rows))
        coordinates = source.content(place) / place.scale
        writes.append(Write(place.sites[0], rows, place.columns, coordinates))
        if place.state == "alpha":
            writes += carried_predictions(base, source, t)
    names = tuple(place.state for place in places)
    return Intervention(names, t, "exchange", tuple(writes), base.numerics.finished(t, changed))


def carried_predictions(base: Observed, source: Observed, t: int) -> list[Write]:
    """Where queries add to their predictions as supports add to α, both are the iterate, and both are put in."""
    numerics, model = source.numerics, base.numerics.model
    read_from_alpha = any("alpha" in head.multiplies for head in model.heads("matvec"))
    if base.space != "dual" or read_from_alpha or numerics.solver.smooths:
        return []
    entry = next(e for e in model.sites["predictions"] if e["step"] == t)
    values = numerics.predictions(numerics.states[t])
    return [Write(entry["site"], base.tokens.queries, tuple(entry["columns"]), values)]


def transports(base: Observed, source: Observed, held: Sequence[Held]) -> list[Intervention]:
    """The operator in place of the base's, or the weights, of which each token holds what they leave unexplained."""
    numerics, found = base.numerics, []
    for place in held:
        t = place.step
        if t == numerics.steps or not base.scored(place):
            continue
        if place.state != "unexplained":
            if numerics.keeps_operators_twice:
                continue  # the place that is labelled is not the whole state
            value = source.numerics.value(place.state, t)
            rows = tuple(base.tokens.rows(place.rows))
            values = images(numerics, value) / place.scale
            writes = (Write(place.sites[0], rows, place.columns, values),)
            expected = numerics.finished(t, {place.state: value})
        else:
            weights = source.numerics.value("alpha", t)
            parts = residual_of_tokens(numerics, weights)
            rows = tuple(i for kind in parts for i in base.tokens.rows(kind))
            values = torch.cat(list(parts.values()), dim=1)
            writes = (Write(place.sites[0], rows, place.columns, values),)
            expected = numerics.finished(t, {"alpha": weights})
        found.append(Intervention((place.state,), t, "transport", writes, expected))
    return found


def edit_of(write: Write, basis: Float[Tensor, "d m"]) -> Edit:
    """The write as an edit of a stream in which its subspace has this orthonormal basis."""
    rows = list(write.rows)

    def put(stream: Tensor) -> Tensor:
        stream = stream.clone()
        there = stream[:, rows]
        stream[:, rows] = there + (write.values - there @ basis) @ basis.mT
        return stream

    return Edit(write.site, put)


def run(
    transformer: Transformer,
    tokens: Float[Tensor, "batch n d_in"],
    context: int,
    edits: Edits,
) -> Float[Tensor, "batch q r"]:
    with torch.inference_mode():
        found: Tensor = transformer(tokens, context, edits)
    return found
