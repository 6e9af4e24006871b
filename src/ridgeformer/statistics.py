"""Means and medians over prompts with bootstrap intervals, what is fitted to such means, and rank correlations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# SciPy loads `scipy.stats` when it is first used, so that commands that estimate nothing start faster.
import scipy
import torch
from jaxtyping import Float
from torch import Tensor

RESAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A mean over prompts, a function of means, or a median, with its 95 % interval; None where it is not
    defined."""

    mean: float | None
    low: float | None
    high: float | None
    prompts: int
    """How many prompts the mean is taken over; prompts without a value do not count."""


UNDEFINED = Estimate(None, None, None, 0)


def estimate(values: Float[Tensor, " batch"], seed: int) -> Estimate:
    """The mean over prompts and its percentile bootstrap interval; a prompt without a value has NaN.

    The same seed takes the same resamples, so that estimates over the same prompts are paired.
    """
    return estimate_of(values[~values.isnan()], lambda means: means, seed)


def estimate_of(
    values: Float[Tensor, "batch ..."], of: Callable[[Tensor], Tensor], seed: int
) -> Estimate:
    """A function `of` the means over prompts, such as a slope, with its percentile bootstrap interval.

    `of` takes means with a leading axis of resamples and returns one number for each of them. The
    estimate is undefined where any of these numbers is not finite, as for a level that the means
    never reach.
    """
    return estimates_of(values, lambda means: of(means)[:, None], seed)[0]


def estimates_of(
    values: Float[Tensor, "batch ..."], of: Callable[[Tensor], Tensor], seed: int
) -> tuple[Estimate, ...]:
    """Several functions `of` the same means over prompts, each as in `estimate_of`.

    `of` takes means with a leading axis of resamples and returns a row of numbers for each of them.
    Numbers that are not finite leave only their own estimate undefined.
    """
    batch = len(values)
    if batch == 0:
        return (UNDEFINED,) * of(values.new_full((1, *values.shape[1:]), np.nan)).shape[1]

    def statistic(chosen: np.ndarray, axis: int) -> np.ndarray:
        # A matrix product with how often each prompt was drawn needs no copies of the values.
        rows = torch.from_numpy(chosen)
        counts = torch.zeros(len(rows), batch, dtype=values.dtype)
        counts.scatter_add_(1, rows, torch.ones_like(rows, dtype=values.dtype))
        means = (counts / batch @ values.reshape(batch, -1)).reshape(-1, *values.shape[1:])
        return of(means).T.numpy()

    whole: list[float] = of(values.mean(0, keepdim=True))[0].tolist()
    if batch == 1:  # Every resample is the one prompt, and SciPy refuses to draw them.
        return tuple(Estimate(m, m, m, 1) if np.isfinite(m) else UNDEFINED for m in whole)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of NaN, tested below
        drawn = scipy.stats.bootstrap(
            (np.arange(batch),), statistic, n_resamples=RESAMPLES, vectorized=True,
            method="percentile", rng=seed,
        )  # fmt: skip
    finite = np.isfinite(whole) & np.isfinite(drawn.bootstrap_distribution).all(-1)
    # The mean of equal numbers may round to either side of them.
    return tuple(
        Estimate(mean, min(float(low), mean), max(float(high), mean), batch) if good else UNDEFINED
        for mean, low, high, good in zip(whole, *drawn.confidence_interval, finite, strict=True)
    )


def estimate_median(values: Float[Tensor, " batch"], seed: int) -> Estimate:
    """The median over prompts and its percentile bootstrap interval; a prompt without a value has NaN."""
    values = values[~values.isnan()]
    if len(values) == 0:
        return UNDEFINED
    median = float(np.median(values.numpy()))
    if len(values) == 1:
        return Estimate(median, median, median, 1)
    drawn = scipy.stats.bootstrap(
        (values.numpy(),), np.median, n_resamples=RESAMPLES, method="percentile", rng=seed
    )
    low, high = (float(end) for end in drawn.confidence_interval)
    return Estimate(median, min(low, median), max(high, median), len(values))


def slope(x: Float[Tensor, " m"], y: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """The slope of the least-squares line through each row."""
    return torch.from_numpy(np.polyfit(x.numpy(), y.numpy().T, 1)[0])


def r_squared(x: Float[Tensor, " m"], y: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """The share of each row's variance that its least-squares line explains."""
    return correlation(x[None].numpy(), y.numpy()).square()


def rank_correlation(
    a: Float[Tensor, "batch q"], b: Float[Tensor, "batch q"]
) -> Float[Tensor, " batch"]:
    """Spearman's ρ over the queries of each prompt; NaN where one side is constant."""
    return correlation(*(scipy.stats.rankdata(side.numpy(), axis=-1) for side in (a, b)))


def correlation(a: np.ndarray, b: np.ndarray) -> Float[Tensor, " batch"]:
    """Pearson's correlation of each pair of rows; NaN where a row is constant."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return torch.from_numpy(scipy.stats.pearsonr(a, b, axis=-1).statistic)
