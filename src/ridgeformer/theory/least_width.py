"""Lower bounds on the width: what the state of a support must tell apart."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers import Solver, krr
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.theory.sensitivity import semi_iteration_weights
from ridgeformer.types import Refusal


def unseen_direction(weights: Float[Tensor, "data d_model"]) -> Float[Tensor, " data"]:
    """A unit vector of changes [δφ | δy] of a token that an embedding with these weights maps to 0."""
    data, width = weights.shape
    if width >= data:
        raise Refusal(
            f"An embedding of {data} numbers in {width} channels need not lose any: give fewer channels."
        )
    vectors: Tensor = torch.linalg.svd(weights.double(), full_matrices=True).U
    return vectors[:, -1]


def indistinct_error(
    prompt: Prompt, other: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch q r"]:
    """|f*(x) − f*′(x)|/2: what a model that cannot tell two prompts apart is off by on one of them."""
    exact, also = (krr(given, ridge=ridge, kernel=kernel) for given in (prompt, other))
    return (exact - also).abs() / 2


def semi_iteration_least_width(features: int, outputs: int, *, remembers: bool) -> int:
    """p + 2r channels, or p + 3r if a step reads the iterate before the last."""
    return features + (3 if remembers else 2) * outputs


def future_rank(
    solver: Solver, prompt: Prompt, *, ridge: float, interval: Interval, seed: int
) -> int:
    """The rank of the derivative of later predictions in what the first support holds.

    The kernel is linear. The first support holds its features, its target and its entries of the last iterate,
    and of the one before where a step reads that. The iterates are drawn; the predictions, at all
    queries, are those of the last iterate and of the next three.
    """
    weights = semi_iteration_weights(solver, steps=6, tuned=interval)[2:5]
    centre, p, r = sum(interval) / 2, prompt.features, prompt.outputs
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(2, prompt.supports, r, generator=generator, dtype=torch.float64)
    phi, y = prompt.phi[0].double(), prompt.y[0].double()
    remembers = any(reads for _, reads in weights)

    def first(own: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([own[None], rest[1:]])

    def future(held: Tensor) -> Tensor:
        own = held[p:].view(-1, r)
        features, targets = first(held[:p], phi), first(own[0], y)
        now, before = first(own[1], drawn[0]), drawn[1]
        if remembers:
            before = first(own[2], before)
        seen = [features.mT @ now]
        for omega, reads in weights:
            base = before if reads else now
            residual = targets - features @ (features.mT @ now) - ridge * now
            before, now = now, base + omega * (now - base + residual / centre)
            seen.append(features.mT @ now)
        return torch.cat([x.flatten() for x in seen])

    parts = [phi[0], y[0], drawn[0, 0]] + ([drawn[1, 0]] if remembers else [])
    derivative: Tensor = torch.func.jacrev(future)(torch.cat(parts))
    values = torch.linalg.svdvals(derivative)
    return int((values > 1e-9 * values[0]).sum())
