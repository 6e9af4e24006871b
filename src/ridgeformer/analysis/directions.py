"""Probes for vectors at the supports: a linear map of a token's stream whose values point where a vector points.

A probe is one ridge regression from a token's stream to the entry of the vector at that token, the same for all
prompts. A vector is compared by the cosine within each prompt, and has length 1 in each prompt at first, since
many are kept in a unit that changes with prompt and step, so that only their direction is there to be found. A few
more regressions then give each fitted prompt's vector the length that the last probe found for it, so that no
prompt is held to a unit that it does not have; held-out prompts are never rescaled.

`outside` removes from streams and vectors, within each prompt, what is known already. Each prompt then has its own
coefficients on the known vectors, and only what is new can be found.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.analysis.readouts import Regression, Split
from ridgeformer.tasks import Prompt, generator_of
from ridgeformer.types import Refusal, counted

PENALTY = 1e-10
"""The penalty of the ridge regression, for columns of variance 1 and a mean squared error."""

ROUNDS = 5
"""The number of regressions in which the lengths of vectors are found."""

DEPENDENT = 1e-6
"""A vector of length 1 of which less than this lies outside a span is in it, but for round-off."""


class Directions:
    """The streams of some tokens after each layer, ready to be probed for vectors.

    Only the prompts that fit, by the split, have a say in what a probe is.
    """

    def __init__(self, streams: Float[Tensor, "layers batch n d"], split: Split) -> None:
        self.split = split
        # A layer that is not finite is blank; its probes say nothing, and have no cosine.
        self.finite = torch.isfinite(streams).flatten(1).all(1)
        streams = torch.where(self.finite[:, None, None, None], streams, 0.0)
        self.regression = Regression(streams[:, split.fit].flatten(1, 2), PENALTY)
        self.columns = self.regression.columns(streams)

    @property
    def varies(self) -> bool:
        """Whether any column of any layer does."""
        return bool(self.regression.scale.any())

    def weights(self, vectors: Float[Tensor, "batch n c"]) -> Float[Tensor, "layers d1 c"]:
        """The probes of several vectors, for standardised columns; the last weight is the intercept."""
        rows, goal = self.columns[:, self.split.fit], vectors[self.split.fit]
        weights = self.regression.weights(goal.flatten(0, 1))
        for _ in range(ROUNDS - 1 if goal.shape[1] > 1 else 0):
            # The length is at least 0: a prompt may have its own unit, but not its own sign.
            length = ((rows @ weights[:, None]) * goal).sum(2, keepdim=True).clamp(min=0)
            length = length / length.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)
            weights = self.regression.weights((length * goal).flatten(1, 2))
        return weights

    def fitted(self, vectors: Float[Tensor, "batch n c"]) -> Fitted:
        """The probes of several vectors; their entries may not be finite, and such a vector is not found."""
        known = torch.isfinite(vectors).flatten(0, 1).all(0)
        weights = self.weights(torch.where(known, vectors, 0.0))
        return Fitted(self.columns, weights, self.split, self.finite[:, None, None] & known)


@dataclass(frozen=True)
class Fitted:
    """Probes of some vectors from all layers, which can be asked about prompts that did not fit them."""

    columns: Float[Tensor, "layers batch n d1"]
    weights: Float[Tensor, "layers d1 c"]
    split: Split
    known: Bool[Tensor, "layers 1 c"]
    """Whether the layer and the vector are finite."""

    def said(self, prompts: slice) -> Float[Tensor, "layers some n c"]:
        """What the probes say of some prompts; of those that fitted them nothing is said."""
        fitted = range(self.split.fit.start, self.split.fit.stop)
        if set(fitted) & set(range(*prompts.indices(self.columns.shape[1]))):
            raise Refusal(
                "A probe cannot be judged by the prompts that fitted it: ask for those that choose or score."
            )
        return self.columns[:, prompts] @ self.weights[:, None]

    def cosines(
        self, vectors: Float[Tensor, "batch n c"], prompts: slice
    ) -> Float[Tensor, "layers some c"]:
        """The cosine with the vectors within each of these prompts; NaN where one is not known."""
        found = torch.cosine_similarity(self.said(prompts), vectors[prompts], dim=2)
        return torch.where(self.known, found, torch.nan)


def unit(vectors: Float[Tensor, "batch n c"]) -> Float[Tensor, "batch n c"]:
    """The vectors with length 1 in each prompt; a vector of length 0 stays as it is."""
    length: Tensor = vectors.norm(dim=1, keepdim=True)
    return vectors / torch.where(length > 0, length, 1.0)


def outside(
    x: Float[Tensor, "*layers batch n c"], basis: Float[Tensor, "batch n m"]
) -> Float[Tensor, "*layers batch n c"]:
    """What of x is orthogonal to the basis, within each prompt."""
    for _ in range(2):  # once more, for what round-off has left
        x = x - basis @ (basis.mT @ x)
    return x


def orthonormal(vectors: Float[Tensor, "batch n c"]) -> Float[Tensor, "batch n c"]:
    """A basis of the span of the vectors; a vector in the span of those before it gives 0."""
    basis = torch.zeros_like(vectors)
    for column, vector in enumerate(unit(vectors).unbind(-1)):
        left = outside(vector[..., None], basis)
        length: Tensor = left.norm(dim=1, keepdim=True)
        new = torch.where(length > DEPENDENT, left / length.clamp(min=DEPENDENT), 0.0)
        basis[..., column] = new[..., 0]
    return basis


def deal(batch: int, seed: int) -> Tensor:
    """For each prompt another one, whose targets it gets when targets are dealt."""
    order = torch.randperm(batch, generator=generator_of(seed, 3))
    other = torch.empty_like(order)
    other[order] = order.roll(1)
    return other


def turned(
    vectors: Float[Tensor, "batch n c"], fixed: Float[Tensor, "batch n m"], seed: int
) -> Float[Tensor, "batch n c"]:
    """The vectors after a random rotation of each prompt's space that leaves the fixed vectors where they are.

    All angles among the vectors, and with the fixed ones, stay the same.
    """
    generator = generator_of(seed, 4)
    batch, n, _ = vectors.shape
    bases = []
    for _ in range(2):
        random = torch.randn(batch, n, n, generator=generator, dtype=vectors.dtype)
        # A basis of the complement: what of a random matrix is outside.
        bases.append(torch.linalg.qr(outside(random, fixed)).Q)
    # The directions of a rank that is not full are arbitrary, so that they are taken out once more.
    here, there = (outside(b, fixed) for b in bases)
    inside = fixed @ (fixed.mT @ vectors)
    return inside + there @ (here.mT @ outside(vectors, fixed))


def refuse_shared_prompts(prompt: Prompt, split: Split) -> None:
    """Refuses prompts that come twice, once to fit and once to judge."""
    rows = torch.cat([prompt.phi.flatten(1), prompt.y.flatten(1)], dim=1)
    fitting, choosing, scoring = (
        {tuple(row) for row in rows[part].tolist()}
        for part in (split.fit, split.choose, split.score)
    )
    shared = fitting & (choosing | scoring)
    if shared:
        raise Refusal(
            f"{counted(len(shared), 'prompt')} that fit the probes would judge them too, since the batch holds "
            "them more than once: draw prompts that differ."
        )
