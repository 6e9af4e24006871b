"""Numbers of one method on held-out prompts, with paired bootstrap intervals over prompts."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.statistics import Estimate, estimate_of
from ridgeformer.training.scores import Held, errors, share


def above_zero(x: Tensor) -> Tensor:
    """Where there is nothing to explain, a share of it is not defined."""
    return torch.where(x > 0, x, torch.nan)


def disagreement(found: Float[Tensor, "batch q r"], held: Held, seed: int) -> Estimate:
    """The difference of the two: 2·E[(f − f_best)(f_best − y)]/(Var y − best), 0 for Bayes' predictor."""
    targets = held.sample.targets
    difference = errors(found, targets) - errors(held.best, targets) - errors(found, held.best)
    return share(difference, held, seed)


def agreement(found: Float[Tensor, "batch q r"], held: Held, seed: int) -> dict[str, Estimate]:
    """With the best predictor: mean squared difference, correlation, and R² = 1 − difference/variance."""
    best = held.best
    products = [found, best, found.square(), best.square(), found * best, (found - best).square()]
    values = torch.stack([p.mean((1, 2)) for p in products], -1)

    def correlation(m: Tensor) -> Tensor:
        spread = above_zero(m[:, 2] - m[:, 0] ** 2) * above_zero(m[:, 3] - m[:, 1] ** 2)
        # Round-off may carry the correlation of equal predictions past 1.
        return ((m[:, 4] - m[:, 0] * m[:, 1]) / spread.sqrt()).clamp(-1, 1)

    return {
        "squared difference": estimate_of(values, lambda m: m[:, 5], seed),
        "correlation": estimate_of(values, correlation, seed),
        "R²": estimate_of(values, lambda m: 1 - m[:, 5] / above_zero(m[:, 3] - m[:, 1] ** 2), seed),
    }


def feature_condition(phi: Float[Tensor, "batch k p"], ridge: float) -> Float[Tensor, " batch"]:
    """cond(ΦᵀΦ + λI) of each prompt: what linear regression has to invert."""
    gram = phi.double().mT @ phi.double()
    values: Tensor = torch.linalg.eigvalsh(gram).clamp(min=0) + ridge
    return values[:, -1] / values[:, 0]
