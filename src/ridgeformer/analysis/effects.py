"""Effects of interventions, compared over prompts, queries and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import torch
from torch import Tensor

from ridgeformer.statistics import UNDEFINED, Estimate, estimates_of

APART = 0.1
"""An effect that combinations of others explain but for less than this part cannot be told from them."""

Effects = tuple[Tensor, Tensor]
"""The predicted effect and the actual one, each [batch, q, r]."""


def rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def correlation_estimate(predicted: Tensor, actual: Tensor, seed: int) -> Estimate:
    """Pearson's correlation of both effects, with its 95 % interval over prompts."""
    return correlation_estimates([(predicted, actual)], seed)[0]


def slope_estimate(predicted: Tensor, actual: Tensor, seed: int) -> Estimate:
    """The slope of the actual effect on the predicted one.

    The line goes through 0, since no effect is predicted where nothing is changed.
    """
    return slope_estimates([(predicted, actual)], seed)[0]


def correlation_estimates(pairs: Sequence[Effects], seed: int) -> list[Estimate]:
    """As above for many pairs over the same prompts, which are drawn again for all of them at once."""

    def of(p: Tensor, a: Tensor, pp: Tensor, aa: Tensor, pa: Tensor) -> Tensor:
        return (pa - p * a) / ((pp - p * p) * (aa - a * a)).sqrt()

    return estimated(pairs, of, seed)


def slope_estimates(pairs: Sequence[Effects], seed: int) -> list[Estimate]:
    units = torch.tensor([unit_of(a) / unit_of(p) for p, a in pairs], dtype=torch.float64)
    return estimated(pairs, lambda p, a, pp, aa, pa: pa / pp * units, seed)


def estimated(pairs: Sequence[Effects], of: Callable[..., Tensor], seed: int) -> list[Estimate]:
    """A function of the means of p, a, p², a² and pa for each pair.

    Effects are in units of their own largest entry, so that no square leaves the range of numbers. A pair in
    which a model gave no number has no estimate.
    """
    if not pairs:
        return []
    moments = []
    for predicted, actual in pairs:
        p, a = ((x.double() / unit_of(x)).flatten(1) for x in (predicted, actual))
        moments.append(torch.stack([x.mean(1) for x in (p, a, p * p, a * a, p * a)], dim=-1))
    values = torch.stack(moments, dim=1)  # [batch, pairs, 5]
    return list(estimates_of(values, lambda means: of(*means.unbind(-1)), seed))


def unit_of(values: Tensor) -> float:
    finite = values[torch.isfinite(values)]
    return (float(finite.abs().max()) if finite.numel() else 0.0) or 1.0


def pooled_correlation(pairs: Sequence[Effects], seed: int) -> Estimate:
    """The correlation over several pairs of effects, each of root mean square 1; pairs of which one is undefined or
    without effect are left out."""
    sound = [(p / rms(p), a / rms(a)) for p, a in pairs if 0 < rms(p) < inf and 0 < rms(a) < inf]
    if not sound:
        return UNDEFINED
    predicted, actual = (torch.cat([pair[i] for pair in sound], dim=1) for i in (0, 1))
    return correlation_estimate(predicted, actual, seed)


def without(effect: Tensor, others: Sequence[Tensor]) -> Tensor:
    """What is left of an effect if the combination of others that is nearest to it is taken away; NaN if that is
    next to nothing."""
    columns = torch.stack([torch.ones_like(effect), *others]).flatten(1).mT
    columns = columns / columns.norm(dim=0).clamp(min=1e-300)
    goal = effect.flatten()[:, None]
    nearest = columns @ torch.linalg.lstsq(columns, goal, driver="gelsd").solution
    left: Tensor = effect - nearest.reshape(effect.shape)
    return left if rms(left) > APART * rms(effect) else torch.full_like(left, torch.nan)
