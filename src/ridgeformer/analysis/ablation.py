"""Silence a part of a compiled model: it must compute what its solver computes without that part.

**Mat-vec heads.** In a silenced product, A p becomes λ p. Where predictions come from depends on
the construction, and so does what is left of them when a head is silenced at the queries as well:

    α grows by multiples of p  f grows with α by the same K p: that step's share of f is lost
    fixed coefficients         the head that gives K α_t to the next step is f_t at the queries: f_t = 0
    α and p, behind softmax    f has a head of its own: f_t = k(x)ᵀα_t, whatever α_t has become

If heads are silenced at the supports only, every construction reads f_t = k(x)ᵀα_t.

**Reductions.** Without its reductions, an adaptive solver has ρ = 0. The value of a table at 0 is
that of its end, so 1/ρ̂ and 1/pᵀAp stay finite, but ρ̂ is held at 0: the step length is 0 and so is
α, and β = ρ·(1/ρ̂) = 0. What remains is the change of unit: r_t = p_t = c_t(0)·r_{t−1}, a multiple
of y. Without any head that reads from or writes to the aggregator, nothing is sent to the supports
at all, and r and p are 0 as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ridgeformer.analysis import reference
from ridgeformer.analysis.reference import apart, coefficients, program_of
from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.circuit import Place
from ridgeformer.models import trajectory
from ridgeformer.models.reference import kernel_of
from ridgeformer.program.ops import MatVec, Unit
from ridgeformer.program.tables import unit_table
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Edit, ablate_head
from ridgeformer.types import Refusal

Where = Literal["everywhere", "supports"]
HeadAt = tuple[int, int]
"""A layer, and a head in it."""


def heads_that(model: CompiledModel, *, reads: Place, writes: Place) -> list[HeadAt]:
    """The heads that read from the tokens at `reads` and write to those at `writes`."""
    heads = (head for head in model.heads() if (head.source, head.to) == (reads, writes))
    return [(head.layer, head.head) for head in heads]


def matvec_heads(model: CompiledModel) -> list[HeadAt]:
    """The heads that carry out the recurrence's products with K, in the order of the steps."""
    certificate = model.certificate
    if certificate.ridge is None or certificate.space != "dual":
        raise Refusal("Only dual models of solvers have heads that multiply by K: compile one.")
    if certificate.attention == "softmax" and kernel_of(model).logits() is None:
        raise Refusal(
            "Behind softmax a dot product is spread over many heads: use `to=LinearAttention(…)`."
        )
    multiplied = {op.v.variable for op in program_of(model).ops if isinstance(op, MatVec)}
    heads = model.heads("matvec")
    return [(head.layer, head.head) for head in heads if multiplied & set(head.multiplies)]


def silence(at: HeadAt, place: Where, supports: int) -> Edit:
    """An edit that sets the head's output to 0, at all tokens or at the supports only."""
    if place == "everywhere":
        return ablate_head(*at)

    def quiet(z: Tensor) -> Tensor:
        z = z.clone()
        z[:, :supports, at[1]] = 0
        return z

    return Edit(f"blocks.{at[0]}.attn.z", quiet)


@dataclass(frozen=True)
class MatvecAblation:
    """Distances are the largest over steps and prompts, relative to the intact solver's values."""

    heads: tuple[HeadAt, ...]
    place: Where
    alpha_apart: float
    """The distance of α_1 … α_T from those of the solver without these products."""
    prediction_apart: float
    intact_alpha_apart: float
    """The control: the distance of α_1 … α_T from those of the intact solver."""


def ablate_matvecs(
    model: CompiledModel,
    prompt: Prompt,
    *,
    place: Where = "everywhere",
    which: Sequence[int] | None = None,
) -> MatvecAblation:
    """Silences all mat-vec heads, or those numbered in `which`, and compares with the reference."""
    heads = matvec_heads(model)
    chosen = list(range(len(heads))) if which is None else list(which)
    edits = [silence(heads[i], place, prompt.supports) for i in chosen]
    found = trajectory(model, prompt, states=True, edits=edits)
    alpha, predictions = expected_without(model, prompt, place, chosen)
    machine, intact = coefficients(model, prompt)
    return MatvecAblation(
        tuple(heads[i] for i in chosen),
        place,
        apart(found.states["alpha"], alpha, intact),
        apart(found.predictions, predictions, machine.predict(intact)),
        apart(found.states["alpha"], intact),
    )


def expected_without(
    model: CompiledModel, prompt: Prompt, place: Where, silenced: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """α_t and f_t of the solver when the silenced heads' products are missing."""
    # A method that multiplies α by K asks for K α_0 = 0 first, for which there is no head.
    asked = coefficients(model, prompt)[0].asked
    first = asked - program_of(model).products
    machine, alpha = coefficients(model, prompt, [i + first for i in silenced])
    predictions = machine.predict(alpha)
    if place == "supports":
        return alpha, predictions
    from_alpha = [h for h in model.heads("matvec") if "alpha" in h.multiplies]
    if not from_alpha:  # predictions grow by each step's product
        grown = predictions.diff(dim=0)
        grown[list(silenced)] = 0
        return alpha, torch.cat([predictions[:1], grown.cumsum(0)])
    heads = matvec_heads(model)
    cut = {heads[i] for i in silenced}
    lost = [t for t, h in enumerate(from_alpha, start=1) if (h.layer, h.head) in cut]
    predictions[lost] = 0
    return alpha, predictions


@dataclass(frozen=True)
class AggregatorAblation:
    """An adaptive solver without reductions, or without anything that touches the aggregator."""

    heads: int
    largest_alpha: float
    largest_prediction: float
    state_apart: tuple[float, ...]
    """For each step, the distance of the model's states (α, r, p) from the expected ones, relative
    to their size. Each r is 10¹⁵ times the last: a plain ReLU MLP follows until r exceeds the
    constant with which it silences neurons, and a gated MLP follows at all steps."""
    growth: tuple[float, ...]
    """For each step, the ratio of p_t to y: the product of the tables' values at 0."""
    intact_alpha_apart: float
    """The control: the distance of α_1 … α_T from those of the intact solver."""


def ablate_aggregator(
    model: CompiledModel, prompt: Prompt, part: Literal["reductions", "all"]
) -> AggregatorAblation:
    """Silences the heads from data to the aggregator, or all that read from or write to it."""
    program = program_of(model)
    if not program.adaptive or model.certificate.attention != "linear":
        raise Refusal(
            "Only adaptive solvers with linear attention need the aggregator: compile a solver that "
            "takes inner products."
        )
    kinds: list[tuple[Place, Place]] = [("data", "aggregator")]
    if part == "all":
        kinds += [("aggregator", "aggregator"), ("aggregator", "data")]
    heads = [at for reads, writes in kinds for at in heads_that(model, reads=reads, writes=writes)]
    values = reference.values_without_reductions(program, prompt, kernel_of(model))
    edits = [ablate_head(*at) for at in heads]
    found = trajectory(model, prompt, states=True, edits=edits)
    differences = [0.0] * (model.certificate.steps + 1)
    growth: dict[int, float] = {}
    for name, entries in model.sites["states"].items():
        # α_0 = 0 has no entry.
        for entry, state in zip(entries, found.states[name][-len(entries) :], strict=True):
            step = int(entry["step"])
            channel = program.states[step][name]
            assert channel is not None
            expected = values[channel] if part == "reductions" else torch.zeros_like(state)
            differences[step] = max(differences[step], apart(state, expected))
            if name != "alpha":  # r and p, which are the same vector here
                growth[step] = float((state * prompt.y).sum() / (prompt.y**2).sum())
    return AggregatorAblation(
        len(heads),
        float(found.states["alpha"].abs().max()),
        float(found.predictions.abs().max()),
        tuple(differences),
        tuple(growth[step] for step in sorted(growth)),
        apart(found.states["alpha"], coefficients(model, prompt)[1]),
    )


def growth_without_reductions(model: CompiledModel) -> tuple[float, ...]:
    """For each step, the expected ratio of p_t to y.

    It is the product of the values at 0 of the tables of x^(−1/2).
    """
    zero = torch.zeros(1, dtype=torch.float64)
    units = [op for op in program_of(model).ops if isinstance(op, Unit)]
    tables = torch.cat([unit_table(op.lo, op.hi, op.power)(zero) for op in units])
    return tuple(tables.cumprod(0).tolist())
