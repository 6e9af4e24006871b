"""Linear readouts: how much of a quantity is in the stream after each layer, wherever it may be.

A readout is one least-squares map from a token's stream to the quantity, the same for all prompts. It is fitted
on some prompts, and its errors are measured on others. A map that is the same for all prompts cannot solve a
prompt's system by itself, but it can blend what is there: a readout is stronger than the layer that it reads.
So nothing is concluded from one before the same was done to models whose answer is known.

All readouts and probes are fitted by the one `Regression` of this file, and all prompts are divided by `Split`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.types import Refusal, counted

PENALTY = 1e-9
"""The ridge of the regression, for columns of variance 1 and a mean squared error."""

CONSTANT = 1e-9
"""A column that varies by less than this part of its mean and of the widest column holds nothing but round-off."""


@dataclass(frozen=True)
class Split:
    """Which prompts fit readouts, which choose among fits, and which score what was chosen.

    No prompt may have two of these parts: a readout knows the prompts that fitted it.
    """

    fit: slice
    choose: slice
    score: slice

    def __post_init__(self) -> None:
        parts = [set(range(part.start, part.stop)) for part in (self.fit, self.choose, self.score)]
        twice = (parts[0] & parts[1]) | (parts[0] & parts[2]) | (parts[1] & parts[2])
        if twice:
            raise Refusal(
                f"{counted(len(twice), 'prompt')} would have two parts among fitting, choosing and scoring, the "
                f"first of them prompt {min(twice)}: give parts that share no prompt."
            )

    @staticmethod
    def of(prompts: int, *, chooses: bool = True) -> Split:
        """Half of the prompts fit, a quarter chooses, and a quarter scores; where nothing is chosen, half
        scores."""
        least = 8 if chooses else 4
        if prompts < least:
            raise Refusal(
                f"Prompts are split into those that fit and those that score: give at least {least} prompts, "
                f"got {prompts}."
            )
        half = prompts // 2
        most = prompts - prompts // 4 if chooses else half
        return Split(slice(0, half), slice(half, most), slice(most, prompts))


class Regression:
    """Ridge regressions from the columns of several layers to any targets, which are given later.

    Columns have mean 0 and variance 1 when the penalty is counted, constant ones get no weight, and the
    intercept is free. The pseudo-inverse of every layer is worked out once, so that a target costs one product.
    """

    def __init__(self, rows: Float[Tensor, "layers rows d"], penalty: float = PENALTY) -> None:
        rows = rows.double()
        self.mean, spread = rows.mean(1), rows.std(1)
        varies = spread > CONSTANT * (self.mean.abs() + spread.amax(1, keepdim=True))
        self.scale = torch.where(varies, 1 / spread, 0.0)
        columns = (rows - self.mean[:, None]) * self.scale[:, None]
        left, values, right = torch.linalg.svd(columns, full_matrices=False)
        damped = values / (values.square() + penalty * rows.shape[1])
        inverse = right.mT * damped[:, None] @ left.mT
        # Columns of mean 0 are orthogonal to the constant, whose weight is the mean of the target.
        mean_of_target = torch.full_like(inverse[:, :1], 1 / rows.shape[1])
        self.inverse = torch.cat([inverse, mean_of_target], dim=1)  # [layers, d + 1, rows]

    def columns(
        self, streams: Float[Tensor, "layers batch n d"]
    ) -> Float[Tensor, "layers batch n d1"]:
        """The standardised columns of any prompts, and a column of ones."""
        moved = (streams.double() - self.mean[:, None, None]) * self.scale[:, None, None]
        return torch.cat([moved, torch.ones_like(moved[..., :1])], dim=-1)

    def weights(self, targets: Float[Tensor, "*own rows c"]) -> Float[Tensor, "layers d1 c"]:
        """The weights of the columns; the last is the intercept. Layers may have targets of their own."""
        found: Tensor = self.inverse @ targets
        return found

    def affine(
        self, targets: Float[Tensor, "rows c"]
    ) -> tuple[Float[Tensor, "layers d c"], Float[Tensor, "layers c"]]:
        """The weights and the intercepts in the units of the streams."""
        found = self.weights(targets)
        weights = found[:, :-1] * self.scale[..., None]
        return weights, found[:, -1] - (self.mean[:, None] @ weights)[:, 0]


class Readouts:
    """The streams of one kind of token after each layer, ready to be regressed on."""

    def __init__(
        self, streams: Float[Tensor, "layers batch n d"], fit: slice, penalty: float = PENALTY
    ) -> None:
        self.fit = fit
        self.regression = Regression(streams[:, fit].flatten(1, 2), penalty)
        self.columns = self.regression.columns(streams)

    def weights(
        self, targets: Float[Tensor, "steps batch n c"]
    ) -> Float[Tensor, "layers d1 columns"]:
        """The readouts of all targets from all layers; a column for each step and channel."""
        return self.regression.weights(
            targets[:, self.fit].permute(1, 2, 0, 3).flatten(0, 1).flatten(1)
        )

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

    def residuals(
        self, target: Float[Tensor, "batch n c"], layer: int, prompts: slice
    ) -> Float[Tensor, "some n c"]:
        """What one target's readout from one layer misses on those prompts."""
        weights = self.regression.inverse[layer] @ target[self.fit].flatten(0, 1)
        missed: Tensor = self.columns[layer, prompts] @ weights - target[prompts]
        return missed
