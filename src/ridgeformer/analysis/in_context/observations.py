"""`Observations`: all that is asked of a model, whoever made it, to tell how it learns from its prompt.

A model is shown prompts of k supports and q queries. What is kept are features of supports and queries, the
targets of the supports, the outputs at the queries, and the **influence** of every support on every query:

    influence[b, i, j] = (output at query j if the target of support i is changed − output as it is) / the change

A language model's outputs are log-odds or expectations, a compiled model's are its predictions. Nothing else is
known of either here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.types import Refusal

FEWEST_SUPPORTS, FEWEST_QUERIES = 3, 2
"""With fewer, centring over supports and over queries leaves nothing to compare."""


@dataclass(frozen=True, eq=False)
class Observations:
    """What a model answered to prompts of one seed, beside features that may explain it."""

    supports: Float[Tensor, "layers batch k p"]
    """Features of the supports, by layer; of isolated inputs wherever possible, since states in context may hold
    the answer."""
    queries: Float[Tensor, "layers batch q p"]
    targets: Float[Tensor, "batch k"]
    """Numbers, or −1 and 1 for two labels."""
    outputs: Float[Tensor, "batch q"]
    influence: Float[Tensor, "batch k q"]
    seed: int
    """The seed of the prompts, which tells those that choose from those that score."""
    attention: Float[Tensor, "heads batch k q"] | None = None
    """How much each head attends from a query to the target of a support."""
    truth: Float[Tensor, "batch q"] | None = None
    """The true targets of the queries."""

    def __post_init__(self) -> None:
        layers, batch, k, p = shape_of(self.supports, 4, "supports [layers, batch, k, p]")
        q = shape_of(self.queries, 4, "queries [layers, batch, q, p]")[2]
        wanted: dict[str, tuple[int, ...]] = {
            "queries": (layers, batch, q, p),
            "targets": (batch, k),
            "outputs": (batch, q),
            "influence": (batch, k, q),
        }
        if self.attention is not None:
            wanted["attention"] = (self.attention.shape[0], batch, k, q)
        if self.truth is not None:
            wanted["truth"] = (batch, q)
        for name, shape in wanted.items():
            found = tuple(getattr(self, name).shape)
            if found != shape:
                raise Refusal(
                    f"Observations of supports {list(self.supports.shape)} need {name} of shape "
                    f"{list(shape)}; got {list(found)}."
                )
        if k < FEWEST_SUPPORTS or q < FEWEST_QUERIES:
            raise Refusal(
                f"Influence is compared over at least {FEWEST_SUPPORTS} supports and {FEWEST_QUERIES} queries; "
                f"got {k} and {q}: give larger prompts."
            )
        for name in ("supports", *wanted):
            if not torch.isfinite(getattr(self, name)).all():
                raise Refusal(
                    f"The {name} of these observations are not all finite: leave out prompts that failed."
                )

    def __len__(self) -> int:
        return self.targets.shape[0]

    def __getitem__(self, rows: slice) -> Observations:
        """Some of the prompts."""
        return replace(
            self,
            supports=self.supports[:, rows],
            queries=self.queries[:, rows],
            targets=self.targets[rows],
            outputs=self.outputs[rows],
            influence=self.influence[rows],
            attention=None if self.attention is None else self.attention[:, rows],
            truth=None if self.truth is None else self.truth[rows],
        )

    @property
    def layers(self) -> int:
        return self.supports.shape[0]

    def fingerprints(self) -> frozenset[str]:
        """One for each prompt, by which it is known again among others, in whatever order."""
        parts = (self.supports[0], self.queries[0], self.targets, self.outputs, self.influence)
        rows = torch.cat([part.float().flatten(1) for part in parts], dim=1).contiguous().numpy()
        return frozenset(sha256(row.tobytes()).hexdigest()[:16] for row in rows)


def shape_of(value: Tensor, dimensions: int, name: str) -> tuple[int, ...]:
    if value.ndim != dimensions or 0 in value.shape:
        raise Refusal(f"Observations need {name}, none of them empty; got {list(value.shape)}.")
    return tuple(value.shape)
