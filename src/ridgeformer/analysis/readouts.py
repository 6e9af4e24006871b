"""Linear readouts: how much of a quantity is in the stream after each layer, wherever it may be.

A readout is one least-squares map from a token's stream to the quantity, the same for all prompts. It is fitted
on some prompts, and its errors are measured on others. A map that is the same for all prompts cannot solve a
prompt's system by itself, but it can blend what is there: a readout is stronger than the layer that it reads.
So nothing is concluded from one before the same was done to models whose answer is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

PENALTY = 1e-9
"""The ridge of the regression, for columns of variance 1 and a mean squared error."""

CONSTANT = 1e-9
"""A column that varies by less than this part of the widest one holds nothing but round-off."""


@dataclass(frozen=True)
class Split:
    """Which prompts fit readouts, which choose among fits, and which score what was chosen."""

    fit: slice
    choose: slice
    score: slice

    @staticmethod
    def of(prompts: int) -> Split:
        """Half of the prompts fit, a quarter chooses, and a quarter scores."""
        half, most = prompts // 2, prompts - prompts // 4
        return Split(slice(0, half), slice(half, most), slice(most, prompts))


class Readouts:
    """The streams of one kind of token after each layer, ready to be regressed on."""

    def __init__(self, streams: Float[Tensor, "layers batch n d"], fit: slice) -> None:
        self.fit = fit
        streams = streams.double()
        seen = streams[:, fit].flatten(1, 2)
        mean, spread = seen.mean(1), seen.std(1)
        widest = spread.amax(1, keepdim=True)
        varies = spread > CONSTANT * widest
        scale = torch.where(varies, spread, 1.0)
        columns = (streams - mean[:, None, None]) / scale[:, None, None]
        columns = torch.where(varies[:, None, None], columns, 0.0)
        self.columns = torch.cat([columns, torch.ones_like(columns[..., :1])], dim=-1)
        rows = self.columns[:, fit].flatten(1, 2)
        left, values, right = torch.linalg.svd(rows, full_matrices=False)
        damped = values / (values.square() + PENALTY * rows.shape[1])
        self.inverse = right.mT * damped[:, None] @ left.mT  # [layers, d + 1, fitted rows]

    def weights(
        self, targets: Float[Tensor, "steps batch n c"]
    ) -> Float[Tensor, "layers d1 columns"]:
        """The readouts of all targets from all layers; a column for each step and channel."""
        wanted = targets[:, self.fit].permute(1, 2, 0, 3).flatten(0, 1).flatten(1)
        found: Tensor = self.inverse @ wanted
        return found

    def errors(
        self, targets: Float[Tensor, "steps batch n c"], prompts: slice
    ) -> Float[Tensor, "layers steps some"]:
        """The squared error of every target's readout from every layer, for each of those prompts."""
        steps, _, n, channels = targets.shape
        rows = self.columns[:, prompts]  # [layers, some, n, d + 1]
        found = rows.flatten(1, 2) @ self.weights(targets)
        found = found.reshape(len(rows), rows.shape[1], n, steps, channels)
        wanted = targets[:, prompts].permute(1, 2, 0, 3)
        return (found - wanted).square().sum(-1).mean(2).permute(0, 2, 1)
