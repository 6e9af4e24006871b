"""Means and medians over prompts with bootstrap intervals, what is fitted to such means, correlations, and
corrections for several comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# SciPy loads `scipy.stats` when it is first used, so that commands that estimate nothing start faster.
import scipy
import torch
from jaxtyping import Float
from torch import Tensor

RESAMPLES = 1000
FLIPS = 4000
"""So many random changes of signs tell a p-value."""


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


def nested_estimates_of(
    values: Float[Tensor, "batch q ..."], of: Callable[[Tensor], Tensor], seed: int
) -> tuple[Estimate, ...]:
    """As `estimates_of`, for means over prompts and over the queries within them, which are resampled too.

    A resample draws prompts, and then queries of each prompt that was drawn. This serves functions of means to
    which prompts contribute several values each, of which few may count.
    """
    batch, queries = values.shape[:2]
    if batch == 0 or queries == 0:
        return estimates_of(values.new_zeros(0, *values.shape[2:]), of, seed)
    rng = np.random.default_rng(seed)
    prompts = rng.integers(batch, size=(RESAMPLES, batch))[..., None]
    within = rng.integers(queries, size=(RESAMPLES, batch, queries))
    cells = torch.from_numpy(prompts * queries + within).flatten(1)
    counts = torch.zeros(RESAMPLES, batch * queries, dtype=values.dtype)
    counts.scatter_add_(1, cells, torch.ones_like(cells, dtype=values.dtype))
    rows = values.reshape(batch * queries, -1)
    means = (counts / len(rows) @ rows).reshape(-1, *values.shape[2:])
    drawn = of(means).numpy()
    whole: list[float] = of(values.mean((0, 1))[None])[0].tolist()
    finite = np.isfinite(whole) & np.isfinite(drawn).all(0)
    low, high = np.quantile(np.where(finite, drawn, 0.0), (0.025, 0.975), axis=0)
    return tuple(
        Estimate(m, min(float(a), m), max(float(b), m), batch) if good else UNDEFINED
        for m, a, b, good in zip(whole, low, high, finite, strict=True)
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


def chance(values: Float[Tensor, " batch"]) -> float:
    """The two-sided p of a mean of zero over prompts, by Student's t; a prompt without a value has NaN.

    Fewer than three values, or values that are all zero, tell nothing: p is 1.
    """
    kept = values[~values.isnan()].double()
    if len(kept) < 3 or not kept.any():
        return 1.0
    error = float(kept.std()) / len(kept) ** 0.5
    mean = abs(float(kept.mean()))
    if error <= 1e-12 * mean:  # equal values but for round-off
        return 0.0
    return float(2 * scipy.stats.t.sf(mean / error, len(kept) - 1))


def chance_by_signs(values: Float[Tensor, " batch"], seed: int) -> float:
    """The one-sided p of values that are symmetric about 0, for a sum above it, by random changes of their signs.

    Values may differ in size by orders of magnitude, by which Student's t loses its power. A prompt without a value has NaN;
    values that are all zero tell nothing, and p is 1.
    """
    kept = values[~values.isnan()].double()
    if not kept.any():
        return 1.0
    rng = np.random.default_rng(seed)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=(FLIPS, len(kept))))
    total, round_off = kept.sum(), 1e-12 * kept.abs().sum()
    # The values as they are count as one of the changes, without which p might be 0.
    return (1 + int((signs @ kept >= total - round_off).sum())) / (1 + FLIPS)


def holm(chances: Sequence[float]) -> tuple[float, ...]:
    """Holm's correction: p-values that may each be compared with the level at which any error is made.

    The i-th smallest of m is multiplied by m − i + 1, made no smaller than those before it, and at most 1.
    """
    order = np.argsort(chances, kind="stable")
    factors = len(chances) - np.arange(len(chances))
    raised = np.minimum(np.maximum.accumulate(np.asarray(chances)[order] * factors), 1.0)
    corrected = np.empty(len(chances))
    corrected[order] = raised
    return tuple(float(p) for p in corrected)
