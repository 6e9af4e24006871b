"""The λ profile: with which λ does kernel ridge regression explain the influence best?

λ is told in units of the mean of k(x_i, x_i) over all supports, so that 1 stands for a ridge as large as the kernel's own
diagonal. The last λ of every grid is ∞, pure similarity. The best one minimises, with one free scale for all prompts,

    min over c of Σ_prompts |R̃ − c W̃_λ|²,    that is, it maximises (Σ⟨R̃, W̃_λ⟩)²/Σ|W̃_λ|²

where R̃ are the interactions of the model's influence and W̃_λ those of ridge regression. Between the points of the grid
the vertex of a parabola is taken, as for the effective ridge of predictions. Intervals resample prompts, and queries
within them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.effective_ridge import vertex
from ridgeformer.analysis.in_context.influence import influence_agreement, interactions
from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.analysis.in_context.predictors import ridge_influence
from ridgeformer.analysis.in_context.views import View
from ridgeformer.kernels import Kernel
from ridgeformer.statistics import Estimate, estimate, estimates_of, nested_estimates_of
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

RIDGES: tuple[float, ...] = (*(float(r) for r in np.logspace(-3, 2, 101)), inf)
"""The default grid, twenty values to a factor of ten, in units of the mean kernel diagonal."""


@dataclass(frozen=True)
class BestRidge:
    """A λ that was found, in units of the mean kernel diagonal; ∞ where no finite one is better."""

    value: float
    low: float
    high: float

    @property
    def finite(self) -> bool:
        """Whether the whole interval is."""
        return self.high < inf

    def times(self, unit: float) -> BestRidge:
        """The same in other units; those of the kernel if `unit` is its mean diagonal."""
        return BestRidge(self.value * unit, self.low * unit, self.high * unit)

    def to_dict(self) -> dict[str, float | None]:
        """Plain values, with None for ∞."""
        return {name: value if value < inf else None for name, value in vars(self).items()}


@dataclass(frozen=True)
class RidgeProfile:
    """How well ridge regression with each λ agrees with a model."""

    ridges: tuple[float, ...]
    agreement: tuple[Estimate, ...]
    """The correlation of interactions for each λ."""
    best: BestRidge
    """From all prompts, with its interval."""
    first_half: float
    """The λ that the first half of the prompts chooses."""
    second_half: Estimate
    """The agreement of the other half at that λ, which knows nothing of them."""


def diagonal_unit(prompt: Prompt, kernel: Kernel) -> float:
    """The mean of k(x_i, x_i) over all supports of all prompts, the unit of λ."""
    unit = float(kernel.diagonal(prompt.phi.double()).mean())
    if not unit > 0:
        raise Refusal(
            "All features of the supports are 0 in this view, so that there is nothing to compare: choose another "
            "layer, or features that are not centred."
        )
    return unit


def find_ridge_profile(
    observations: Observations,
    view: View,
    *,
    ridges: Sequence[float] = RIDGES,
    unit: float | None = None,
    seed: int,
) -> RidgeProfile:
    """The agreement of ridge regression with the influence as a function of λ; `unit` may come from a choice."""
    check_grid(ridges)
    prompt = view.prompt(observations)
    unit = diagonal_unit(prompt, view.kernel) if unit is None else unit
    predicted = ridge_influence(prompt, view.kernel, [r * unit for r in ridges])
    agreement = influence_agreement(observations.influence, predicted)
    sums = products(observations.influence, predicted)
    half = len(observations) // 2
    first = best_with_interval(sums[: max(half, 1)], ridges, seed, unexplained).value
    chosen = ridge_influence(prompt, view.kernel, [first * unit])[0]
    later = influence_agreement(observations.influence, chosen)[half:]
    return RidgeProfile(
        tuple(ridges),
        estimates_of(agreement.T, lambda means: means, seed),
        best_with_interval(sums, ridges, seed, unexplained),
        first,
        estimate(later, seed),
    )


def check_grid(ridges: Sequence[float]) -> None:
    steps = np.diff(np.log(ridges[:-1])) if len(ridges) > 3 and min(ridges) > 0 else np.zeros(1)
    if not (ridges[-1] == inf and steps[0] > 0 and np.allclose(steps, steps[0])):
        raise Refusal(
            "A grid of λ needs at least three positive values with equal ratios, and ∞ after them; got "
            f"{', '.join(f'{r:g}' for r in ridges)}."
        )


def products(
    found: Float[Tensor, "batch k q"], predicted: Float[Tensor, "grid batch k q"]
) -> Float[Tensor, "batch q grid 2"]:
    """⟨R̃, W̃_λ⟩ and |W̃_λ|² of each query, each λ in a unit of its own, so that none is too small to count."""
    a, b = interactions(found), interactions(predicted)
    size = b.square().sum((1, 2, 3), keepdim=True).sqrt().clamp(min=1e-300)
    b = b / size
    return torch.stack([(a * b).sum(-2), b.square().sum(-2)], dim=-1).permute(1, 2, 0, 3)


def unexplained(means: Float[Tensor, "n grid 2"]) -> Float[Tensor, "n grid"]:
    """Less of it is better. Influence of the opposite sign explains nothing."""
    cross, own = means.unbind(-1)
    return -cross.clamp(min=0).square() / own.clamp(min=1e-300)


def best_of(curves: Float[Tensor, "n grid"], ridges: Sequence[float]) -> Float[Tensor, " n"]:
    """log λ at the least value of each curve, whose last value is that of λ = ∞, for which a larger number stands.

    It is ∞ too if the curve is the same everywhere.
    """
    grid = torch.tensor([log(r) for r in ridges[:-1]], dtype=torch.float64)
    at = curves.argmin(-1)
    inside = vertex(curves[:, None, :-1], grid)[:, 0]
    # Ends of the grid have no parabola.
    found = torch.where(inside.isnan(), grid[at.clamp(max=len(grid) - 1)], inside)
    flat = curves.amax(-1) <= curves.amin(-1)
    return torch.where((at == len(grid)) | flat, beyond(ridges), found)


def beyond(ridges: Sequence[float]) -> float:
    """What stands for log ∞ while quantiles are taken."""
    return log(ridges[-2]) + 1.0


def best_with_interval(
    values: Float[Tensor, "batch q grid *more"],
    ridges: Sequence[float],
    seed: int,
    of: Callable[[Tensor], Tensor] = lambda means: means,
) -> BestRidge:
    """The λ with the least value of a curve that is made of means, and its interval."""
    (found,) = nested_estimates_of(values, lambda means: best_of(of(means), ridges)[:, None], seed)
    ends = (found.mean, found.low, found.high)
    limit = log(ridges[-2]) + 0.5
    return BestRidge(*(inf if x is None or x > limit else exp(x) for x in ends))
