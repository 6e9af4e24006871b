"""Effects of interventions, compared over prompts, queries and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.statistics import UNDEFINED, Estimate, estimate_of

APART = 0.1
"""An effect that combinations of others explain but for less than this part cannot be told from them."""


def rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def moments(
    predicted: Float[Tensor, "batch *n"], actual: Float[Tensor, "batch *n"]
) -> Float[Tensor, "prompts 5"]:
    """For each prompt the means of p, a, p², a² and pa; prompts where the model gave no number are left out.

    Both are in units of their own largest entry, so that no square leaves the range of numbers.
    """
    p, a = (x.double().flatten(1) for x in (predicted, actual))
    finite = torch.isfinite(a).all(1) & torch.isfinite(p).all(1)
    p, a = p[finite], a[finite]
    return torch.stack([x.mean(1) for x in (p, a, p * p, a * a, p * a)], dim=1)


def unit_of(values: Tensor) -> float:
    finite = values[torch.isfinite(values)]
    return (float(finite.abs().max()) if finite.numel() else 0.0) or 1.0


def correlation_estimate(predicted: Tensor, actual: Tensor, seed: int) -> Estimate:
    """Pearson's correlation of both effects, with its 95 % interval over prompts."""

    def of(means: Tensor) -> Tensor:
        p, a, pp, aa, pa = means.unbind(-1)
        return (pa - p * a) / ((pp - p * p) * (aa - a * a)).sqrt()

    units = unit_of(predicted), unit_of(actual)
    return estimate_of(moments(predicted / units[0], actual / units[1]), of, seed)


def pooled_correlation(pairs: Sequence[tuple[Tensor, Tensor]], seed: int) -> Estimate:
    """The correlation over several pairs of effects, each of root mean square 1; pairs of which one is undefined or
    without effect are left out."""
    sound = [(p / rms(p), a / rms(a)) for p, a in pairs if 0 < rms(p) < inf and 0 < rms(a) < inf]
    if not sound:
        return UNDEFINED
    predicted, actual = (torch.cat([pair[i] for pair in sound], dim=1) for i in (0, 1))
    return correlation_estimate(predicted, actual, seed)


def slope_estimate(predicted: Tensor, actual: Tensor, seed: int) -> Estimate:
    """The slope of the actual effect on the predicted one; no effect is predicted where nothing is changed, so
    that the line goes through 0."""
    units = unit_of(predicted), unit_of(actual)
    values = moments(predicted / units[0], actual / units[1])
    return estimate_of(values, lambda m: m[:, 4] / m[:, 2] * (units[1] / units[0]), seed)


def without(effect: Tensor, others: Sequence[Tensor]) -> Tensor:
    """What is left of an effect if the combination of others that is nearest to it is taken away; NaN if that is
    next to nothing."""
    columns = torch.stack([torch.ones_like(effect), *others]).flatten(1).mT
    columns = columns / columns.norm(dim=0).clamp(min=1e-300)
    nearest = columns @ torch.linalg.lstsq(columns, effect.flatten()[:, None], driver="gelsd").solution
    left: Tensor = effect - nearest.reshape(effect.shape)
    return left if rms(left) > APART * rms(effect) else torch.full_like(left, torch.nan)

