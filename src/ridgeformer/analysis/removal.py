"""Heads removed: does silencing a head mimic a candidate that goes without its product with K?

Every head of a transformer is silenced by itself. The effect, the changed prediction less the unchanged one, is
compared with that of a step of the candidate in which K v is 0, so that A v is λv. A head is silenced at the
supports, where it works on the state, so that every construction still reads k(x)ᵀα at the queries; or at all
tokens, as is usual for trained models.

What a step loses and what another loses are alike in part. So the control for a head is the other steps: the
head that carries out a product has the effect of that step up to a factor near 1, and the effects of others
less well. A second control deals the effects of the candidate to other prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.ablation import AggregatorAblation, ablate_aggregator
from ridgeformer.analysis.candidates import Candidate, Noting, Setting
from ridgeformer.analysis.effects import correlation_estimates, rms, slope_estimates
from ridgeformer.analysis.reference import program_of
from ridgeformer.compiler import CompiledModel
from ridgeformer.models import TransformerSubject
from ridgeformer.models.saved import Model
from ridgeformer.statistics import Estimate
from ridgeformer.tasks import Prompt, generator_of
from ridgeformer.transformer import Edit

Where = Literal["everywhere", "supports"]


@dataclass(frozen=True)
class Match:
    """How alike the effects of silencing a head and of a step without its product with K are."""

    step: int
    correlation: Estimate
    slope: Estimate
    """Of the head's effect on the step's."""
    dealt: Estimate
    """The control: the correlation with the effects that the step has in other prompts."""


@dataclass(frozen=True)
class HeadRemoval:
    """The effect of silencing one head; the layers are numbered from 1, as they are in readings."""

    layer: int
    head: int
    size: float
    """The effect, root mean square, over that of the prediction."""
    matches: tuple[Match, ...]
    """For each step of the candidate; none if the head has no effect."""

    @property
    def best(self) -> Match | None:
        """The step whose product the head is most like."""
        defined = [m for m in self.matches if m.correlation.mean is not None]
        return max(defined, key=lambda m: abs(m.correlation.mean or 0.0), default=None)


@dataclass(frozen=True)
class HeadRemovals:
    """Which products of a solver the heads of a model are like, by what their removal changes."""

    subject: str
    candidate: str
    where: Where
    prompts: int
    seed: int
    step_sizes: tuple[float, ...]
    """For each step, the effect of going without its product, over the prediction; 0 if it has none."""
    heads: tuple[HeadRemoval, ...]


NO_EFFECT = 1e-9
"""An effect that is smaller than this part of the prediction is round-off."""


class Dropping(Noting):
    """A machine whose products with K are 0 while it is told so; preconditioners stay as they are."""

    dropping = False

    def kernel_product(self, v: Tensor) -> Tensor:
        return torch.zeros_like(v) if self.dropping else super().kernel_product(v)

    def dense_system(self) -> Tensor:
        if not self.dropping:
            return super().dense_system()
        identity = torch.eye(self.prompt.supports, dtype=self.prompt.y.dtype)
        return (self.ridge * identity).expand(len(self.prompt), -1, -1)

    def eigenvalues(self) -> Tensor:
        found = super().eigenvalues()
        return torch.full_like(found, self.ridge) if self.dropping else found


def without_product(
    candidate: Candidate, setting: Setting, prompt: Prompt, steps: int, dropped: int | None
) -> Float[Tensor, "batch q r"]:
    """The candidate's last prediction if the step `dropped` goes without its products with K."""
    machine = Dropping(prompt, setting.kernel, setting.ridge, interval=(setting.lo, setting.hi))
    state = candidate.solver.init(machine)
    for t in range(1, steps + 1):
        machine.dropping = t == dropped
        state = candidate.solver.step(machine, state, t)
    machine.dropping = False
    found: Tensor = candidate.solver.predict(machine, state)
    return found


def silenced(
    subject: TransformerSubject, prompt: Prompt, block: int, head: int, where: Where
) -> Float[Tensor, "batch q r"]:
    """The predictions if one head is silenced; blocks are numbered from 0, as they are applied."""
    _, _, places = subject.places(prompt)
    first = subject.transformer.config.n_registers

    def quiet(z: Tensor) -> Tensor:
        z = z.clone()
        if where == "supports":
            z[:, first + places, head] = 0
        else:
            z[:, :, head] = 0
        return z

    return subject.run(prompt, [Edit(f"blocks.{block}.attn.z", quiet)])


def remove_heads(
    subject: TransformerSubject,
    prompt: Prompt,
    candidate: Candidate,
    setting: Setting,
    steps: int,
    *,
    where: Where = "everywhere",
    seed: int,
) -> HeadRemovals:
    """The effect of every head, and how much it is like that of every step's product with K."""
    exact = prompt.to(torch.float64)
    intact = without_product(candidate, setting, exact, steps, None)
    lost = {
        t: without_product(candidate, setting, exact, steps, t) - intact
        for t in range(1, steps + 1)
    }
    sizes = {t: rms(effect) / rms(intact) for t, effect in lost.items()}
    steps_with_effect = [t for t in lost if sizes[t] > NO_EFFECT]
    unchanged = subject.predict(prompt).double()
    config = subject.transformer.config
    blocks = range(len(config.applied(subject.loops)))
    effects = {
        (block, head): silenced(subject, prompt, block, head, where).double() - unchanged
        for block, head in product(blocks, range(config.n_heads))
    }
    effect_sizes = {at: rms(effect) / rms(unchanged) for at, effect in effects.items()}
    heard = [at for at, size in effect_sizes.items() if size > NO_EFFECT]
    order = torch.randperm(len(prompt), generator=generator_of(seed))
    order[order.clone()] = order.roll(1)  # one round through all prompts: none keeps its own
    pairs = [(lost[t], effects[at]) for at in heard for t in steps_with_effect]
    dealt = correlation_estimates([(loss[order], effect) for loss, effect in pairs], seed)
    found = zip(
        correlation_estimates(pairs, seed), slope_estimates(pairs, seed), dealt, strict=True
    )
    matches = {at: tuple(Match(t, *next(found)) for t in steps_with_effect) for at in heard}
    return HeadRemovals(
        subject.name,
        candidate.name,
        where,
        len(prompt),
        seed,
        tuple(sizes.values()),
        tuple(
            HeadRemoval(block + 1, head, size, matches.get((block, head), ()))
            for (block, head), size in effect_sizes.items()
        ),
    )


def effect_of_aggregator(subject: TransformerSubject, prompt: Prompt) -> float | None:
    """How much predictions change if no head reads at the aggregator, over the predictions; None where there is none."""
    tokens, _, _ = subject.places(prompt)
    (places,) = (tokens[0, :, -2] == 1).nonzero(as_tuple=True)  # its flag
    if not len(places):
        return None
    config = subject.transformer.config
    rows = config.n_registers + places

    def quiet(z: Tensor) -> Tensor:
        z = z.clone()
        z[:, rows] = 0
        return z

    blocks = range(len(config.applied(subject.loops)))
    changed = subject.run(prompt, [Edit(f"blocks.{block}.attn.z", quiet) for block in blocks])
    unchanged = subject.predict(prompt).double()
    return rms(changed.double() - unchanged) / rms(unchanged)


def remove_aggregator(model: Model, prompt: Prompt) -> tuple[AggregatorAblation, ...] | None:
    """What is left of a compiled model whose aggregator reads nothing, and of one in which nobody reads it
    either; None for models without such a token."""
    if not reads_at_aggregator(model):
        return None
    assert isinstance(model, CompiledModel)
    return tuple(ablate_aggregator(model, prompt, part) for part in ("reductions", "all"))


def reads_at_aggregator(model: Model) -> bool:
    """Whether a model was compiled so that inner products are taken at the aggregator."""
    if not isinstance(model, CompiledModel) or model.certificate.attention != "linear":
        return False
    certificate = model.certificate
    if certificate.ridge is None or certificate.space != "dual" or certificate.looped:
        return False
    return program_of(model).adaptive
