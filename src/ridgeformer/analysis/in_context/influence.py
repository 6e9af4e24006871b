"""How a changed target moves the outputs: compared with the influence that predictors have.

A model's outputs may be biased towards a label, may answer more strongly at some queries, and may heed some places of
the prompt more. None of these concerns how queries are compared with supports, so that means over supports and over
queries are taken away from both sides first. What is left are the **interactions**

    R_ij − R̄_i· − R̄_·j + R̄··

and the agreement of a prompt is the correlation of both sides' interactions, over its k·q entries. The means over queries
tell in turn whether the place of a support counts: **recency**.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.statistics import Estimate, chance, estimate, estimate_of

LEVEL = 0.05
"""The level at which claims hold, and at which copies reject them."""
NOTHING = 1e-9
"""Interactions smaller than this part of the influence are round-off."""


def interactions(influence: Float[Tensor, "*more k q"]) -> Float[Tensor, "*more k q"]:
    """What is left of an influence without its means over supports and over queries; 0 where that is round-off."""
    influence = influence.double()
    left = influence - influence.mean(-1, keepdim=True)
    left = left - left.mean(-2, keepdim=True)
    size = influence.square().sum((-2, -1), keepdim=True)
    there = left.square().sum((-2, -1), keepdim=True) > NOTHING**2 * size
    return torch.where(there, left, 0.0)


def influence_agreement(
    found: Float[Tensor, "batch k q"], predicted: Float[Tensor, "*more batch k q"]
) -> Float[Tensor, "*more batch"]:
    """The correlation of interactions in each prompt; 0 where one side has none."""
    a, b = interactions(found), interactions(predicted)
    sizes = a.square().sum((-2, -1)).sqrt() * b.square().sum((-2, -1)).sqrt()
    both = (a * b).sum((-2, -1))
    return torch.where(sizes > 0, both / sizes.clamp(min=1e-300), 0.0)


def recency(found: Float[Tensor, "batch k q"]) -> Float[Tensor, "batch 2"]:
    """The correlations of each support's mean influence with its place, and with being the last; 0 where all are
    equal."""
    mean = found.double().mean(-1)
    mean = mean - mean.mean(-1, keepdim=True)
    k = mean.shape[-1]
    place = torch.arange(k, dtype=torch.float64)
    shapes = torch.stack([place - place.mean(), (place == k - 1).double() - 1 / k])
    size = mean.norm(dim=-1, keepdim=True)
    there = size > NOTHING * found.double().abs().amax((-2, -1))[:, None]
    cosines = mean @ shapes.mT / (size.clamp(min=1e-300) * shapes.norm(dim=-1))
    return torch.where(there, cosines, 0.0)


@dataclass(frozen=True)
class Shares:
    """The parts of the mean squared influence, which sum to 1."""

    common: Estimate
    """The mean over all supports and queries of a prompt."""
    supports: Estimate
    """How means over queries differ between supports, as with recency."""
    queries: Estimate
    """How means over supports differ between queries."""
    interactions: Estimate
    """The rest, which tells how queries are compared with supports."""


def shares_of(found: Float[Tensor, "batch k q"], *, seed: int) -> Shares:
    """How much of a model's influence each part is."""
    found = found.double()
    common = found.mean((-2, -1), keepdim=True)
    supports = found.mean(-1, keepdim=True) - common
    queries = found.mean(-2, keepdim=True) - common
    parts = (common, supports, queries, found - common - supports - queries, found)
    squares = torch.stack([p.expand_as(found).square().mean((-2, -1)) for p in parts], dim=1)
    return Shares(
        *(
            estimate_of(squares, lambda means, n=part: means[:, n] / means[:, -1], seed)  # type: ignore[misc]
            for part in range(4)
        )
    )


@dataclass(frozen=True)
class Comparison:
    """A mean over prompts that would be 0 if nothing were there, such as a difference of two agreements."""

    name: str
    value: Estimate
    chance: float
    """The p-value of 0, not corrected for other comparisons."""

    @property
    def above(self) -> bool:
        return self.value.mean is not None and self.value.mean > 0

    @property
    def one_sided(self) -> float:
        """The p-value of "not above 0"."""
        return self.chance / 2 if self.above else 1 - self.chance / 2


def compared(name: str, values: Float[Tensor, " batch"], *, seed: int) -> Comparison:
    """A comparison of one value per prompt, with a bootstrap interval and the p-value of Student's t."""
    return Comparison(name, estimate(values, seed), chance(values))


def additivity_of_changes(
    joint: Float[Tensor, "batch q"], single: Float[Tensor, "batch n q"], *, seed: int
) -> Estimate:
    """The response to several changes at once, as a multiple of the sum of the responses to each alone.

    1 says that changes add up, as with every predictor that is linear in the targets; less says that outputs
    saturate. It is the slope of least squares through 0, after centring over queries.
    """
    joint, total = joint.double(), single.double().sum(1)
    joint, total = (x - x.mean(-1, keepdim=True) for x in (joint, total))
    squares = torch.stack([(joint * total).sum(-1), total.square().sum(-1)], dim=1)
    return estimate_of(squares, lambda means: means[:, 0] / means[:, 1], seed)
