"""Patterns: in which directions of the stream a layer writes a candidate's state.

A readout's weights say how a quantity can be read. They do not say where it is written: where the stream holds
the same quantity twice, or others from which it follows, the weights are spread over all of these, and a change
along them would change the others, too. The pattern of a quantity is the direction in which the stream moves
when the quantity does and everything else stays (Haufe et al. 2014). It is found by regression of the stream on
the quantities. Two prompts A and B that differ only in their targets differ in the stream by

    h_B − h_A = Σ_x E_x (x_B − x_A) + Σ_q E_q (u_{q,B} q_B − u_{q,A} q_A) + what none of these explains

with one E for all prompts and tokens, where x are the targets and whatever else may be beside the state; what
depends on the features alone drops out. u is the unit in which a
prompt keeps q, relative to the candidate's own: 1, unless the candidate keeps vectors in units that change with
the prompt, as conjugate gradients do. Then only the direction of q within a prompt is known beforehand. A
readout w that finds a multiple of q in each prompt, whatever the multiple is, solves an eigenproblem:

    maximise Σ_b |P_b H_b w|² / Σ_b |H_b w|²,    P_b the projection on q_b, H_b the streams of prompt b

and the multiples that it finds are the units.

A quantity that is a fixed multiple of the targets, such as the first iterate of gradient descent, has no
pattern of its own, and one that several independent readouts find in different units has no unit of its own.
Such quantities are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PENALTY = 1e-12
"""The ridge of the regression on quantities, for columns of mean square 1."""

READ_PENALTY = 1e-9
"""The ridge of readouts, for channels of mean square 1."""

DISTINCT = 1e-6
"""A quantity has a pattern of its own if more than this part of its mean square is not linear in the others."""

NOISE = 1e-11
"""Directions in which the stream has less than this part of its largest mean square hold only round-off."""


@dataclass(frozen=True)
class Pair:
    """Values in prompts A, and in prompts B that differ from them only in their targets."""

    mine: Float[Tensor, "columns batch n"]
    other: Float[Tensor, "columns batch n"]

    def __getitem__(self, prompts: slice) -> Pair:
        return Pair(self.mine[:, prompts], self.other[:, prompts])

    @property
    def difference(self) -> Float[Tensor, "columns batch n"]:
        return self.other - self.mine

    def times(self, units: Units) -> Pair:
        return Pair(self.mine * units.mine[..., None], self.other * units.other[..., None])


@dataclass(frozen=True)
class Units:
    """The units in which each prompt keeps each quantity, relative to those of the candidate."""

    mine: Float[Tensor, "columns batch"]
    other: Float[Tensor, "columns batch"]

    def __getitem__(self, prompts: slice) -> Units:
        return Units(self.mine[:, prompts], self.other[:, prompts])


@dataclass(frozen=True)
class Patterns:
    """How one layer writes a state."""

    state: Float[Tensor, "columns d"]
    distinct: Bool[Tensor, " columns"]
    """Whether a quantity can be told from the targets and the others."""


def find_patterns(
    change: Float[Tensor, "batch n d"],
    beside: Float[Tensor, "others batch n"],
    state: Float[Tensor, "columns batch n"],
) -> Patterns:
    """The regression of the streams' differences on those of the state, and of what else may be there."""
    columns = torch.cat([beside, state])
    size = columns.square().mean((1, 2)).sqrt()
    used = torch.where(size > 0, size, 1.0)
    rows = (columns / used[:, None, None]).flatten(1)
    gram = rows @ rows.mT / rows.shape[1]
    gram.diagonal().add_(PENALTY)
    inverse = torch.linalg.inv(gram)
    found = inverse @ (rows @ change.flatten(0, 1)) / rows.shape[1] / used[:, None]
    alone = 1 / (inverse.diagonal() * gram.diagonal())
    distinct = (alone > DISTINCT) & (size > 0)
    first = len(beside)
    return Patterns(found[first:], distinct[first:])


def read_error(
    stream: Float[Tensor, "batch n d"],
    wanted: Float[Tensor, "columns batch n"],
    fit: slice,
    choose: slice,
) -> float:
    """The part of the mean square that readouts fitted on some prompts miss on others, of the quantity that is
    missed most."""
    rows, others = (stream[part].flatten(0, 1) for part in (fit, choose))
    size = rows.square().mean(0).sqrt()
    scale = torch.where(size > NOISE**0.5 * size.max(), size, torch.inf)
    rows, others = rows / scale, others / scale
    gram = rows.mT @ rows / len(rows)
    gram.diagonal().add_(READ_PENALTY)
    weights = torch.linalg.solve(gram, rows.mT @ wanted[:, fit].flatten(1).mT / len(rows))
    goal = wanted[:, choose].flatten(1).mT
    missed = (others @ weights - goal).square().mean(0) / goal.square().mean(0).clamp(min=1e-300)
    return float(missed.max())


@dataclass(frozen=True)
class DirectionReadout:
    """A readout that finds a multiple of a quantity in each prompt, whatever the multiple is."""

    weights: Float[Tensor, " d"]
    single: bool
    """Whether no independent readout does so as well."""

    def units(
        self, stream: Float[Tensor, "batch n d"], quantity: Float[Tensor, "batch n"]
    ) -> Float[Tensor, " batch"]:
        """The multiple that is found in each prompt."""
        length = quantity.square().sum(1).clamp(min=1e-300)
        multiples: Tensor = ((stream @ self.weights) * quantity).sum(1) / length
        return multiples

    def missed(
        self, stream: Float[Tensor, "batch n d"], quantity: Float[Tensor, "batch n"]
    ) -> float:
        """The part of the mean square of what is read that is no multiple of the quantity."""
        read = stream @ self.weights
        rest = read - self.units(stream, quantity)[:, None] * quantity
        return float(rest.square().sum() / read.square().sum().clamp(min=1e-300))


def read_direction(
    stream: Float[Tensor, "batch n d"], quantity: Float[Tensor, "batch n"]
) -> DirectionReadout:
    """The readout that is nearest to a multiple of the quantity in each prompt; the multiples have mean 1."""
    direction = quantity / quantity.norm(dim=1, keepdim=True).clamp(min=1e-300)
    along = torch.einsum("bnd,bn->bd", stream, direction)
    flat = stream.flatten(0, 1)
    sizes, axes = torch.linalg.eigh(flat.mT @ flat)
    kept = sizes > NOISE * sizes[-1].clamp(min=1e-300)
    whiten = axes[:, kept] / sizes[kept].sqrt()
    shares, found = torch.linalg.eigh(whiten.mT @ (along.mT @ along) @ whiten)
    single = len(shares) < 2 or float(shares[-2]) < 1 - DISTINCT
    raw = DirectionReadout(whiten @ found[:, -1], single)
    mean = raw.units(stream, quantity).mean()
    return DirectionReadout(raw.weights / torch.where(mean.abs() > 1e-12, mean, 1.0), single)
