"""Means and what is fitted to them, with bootstrap intervals, and rank correlations, over prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor

RESAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A mean over prompts with its 95 % interval; None where it is not defined for any prompt."""

    mean: float | None
    low: float | None
    high: float | None
    prompts: int
    """Over how many prompts; fewer than drawn where some have no value."""


def estimate(values: Float[Tensor, " batch"], seed: int) -> Estimate:
    """The mean and its percentile bootstrap interval over prompts; NaN is a prompt without a value.

    The same seed takes the same resamples, so that estimates over the same prompts are paired.
    """
    values = values[~values.isnan()]
    if len(values) == 0:
        return Estimate(None, None, None, 0)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(values), (RESAMPLES, len(values)), generator=generator)
    ends = values[chosen].mean(1).quantile(torch.tensor([0.025, 0.975], dtype=values.dtype))
    mean = float(values.mean())
    # The mean of equal numbers may round to either side of them.
    return Estimate(mean, min(float(ends[0]), mean), max(float(ends[1]), mean), len(values))


def estimate_of(
    values: Float[Tensor, "batch ..."], of: Callable[[Tensor], Tensor], seed: int
) -> Estimate:
    """What `of` makes of the means over prompts, such as a slope, with its interval.

    `of` takes means with a leading axis of resamples and returns one number for each. It is None
    where that is not finite, as for a level that the means never reach.
    """
    generator = torch.Generator().manual_seed(seed)
    batch = len(values)
    chosen = torch.randint(batch, (RESAMPLES, batch), generator=generator)
    # Weights instead of copies: how often each prompt was drawn.
    counts = torch.zeros(RESAMPLES, batch, dtype=values.dtype)
    counts.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=values.dtype))
    means = (counts / batch @ values.reshape(batch, -1)).reshape(RESAMPLES, *values.shape[1:])
    found, mean = of(means), float(of(values.mean(0, keepdim=True))[0])
    if not (torch.isfinite(found).all() and isfinite(mean)):
        return Estimate(None, None, None, 0)
    ends = found.quantile(torch.tensor([0.025, 0.975], dtype=found.dtype))
    return Estimate(mean, min(float(ends[0]), mean), max(float(ends[1]), mean), batch)


def slope(x: Float[Tensor, " m"], y: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """Of the least-squares line through each row."""
    centred = x - x.mean()
    return (y - y.mean(-1, keepdim=True)) @ centred / centred.square().sum()


def r_squared(x: Float[Tensor, " m"], y: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """The share of each row's variance that its least-squares line explains."""
    centred, above = x - x.mean(), y - y.mean(-1, keepdim=True)
    left = above - slope(x, y)[:, None] * centred
    return 1 - left.square().sum(-1) / above.square().sum(-1)


def ranks(values: Float[Tensor, "batch q"]) -> Float[Tensor, "batch q"]:
    """Ranks from 1; ties share the mean of theirs."""
    own, other = values[:, :, None], values[:, None, :]
    below, equal = (other < own).sum(-1), (other == own).sum(-1)
    return below + (equal + 1) / 2


def rank_correlation(
    a: Float[Tensor, "batch q"], b: Float[Tensor, "batch q"]
) -> Float[Tensor, " batch"]:
    """Spearman's ρ over the queries of each prompt; NaN where one side is constant."""
    centred = [r - r.mean(-1, keepdim=True) for r in (ranks(a).double(), ranks(b).double())]
    norms = [r.square().sum(-1).sqrt() for r in centred]
    return (centred[0] * centred[1]).sum(-1) / (norms[0] * norms[1])
