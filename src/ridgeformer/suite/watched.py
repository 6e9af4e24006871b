"""A case as a baseline sees it: its stream on the prompts, and what is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel, kernel_from
from ridgeformer.suite.interventions import run
from ridgeformer.suite.reading import StoredCase
from ridgeformer.suite.tokens import named_rows
from ridgeformer.transformer import Edits, Record

CONTROL_STEPS = 3
"""So many steps of conjugate gradients are looked for in a control."""


@dataclass(frozen=True)
class Asked:
    """A state that a baseline looks for."""

    state: str
    step: int
    of: int
    """The number of steps that the solver takes."""
    rows: list[int]
    dimension: int


@dataclass(frozen=True)
class Watched:
    """A case with its stream on the prompts that a tool may see."""

    case: StoredCase

    @cached_property
    def sites(self) -> list[str]:
        layers = range(self.case.config.n_layers)
        names = [f"blocks.{layer}.resid_{half}" for layer in layers for half in ("mid", "post")]
        return ["embed", *names]

    @cached_property
    def stream(self) -> Mapping[str, Float[Tensor, "batch rows d"]]:
        return self.recorded("prompts", self.sites)

    def recorded(self, which: str, sites: list[str]) -> Mapping[str, Tensor]:
        """The stream on the prompts of the case, or on the `base` or the `source` of its interventions."""
        record = Record.of(sites)
        run(self.case.transformer, self.tokens(which), self.case.seen["context"], [record])
        return {site: record.values[site].double() for site in sites}

    def tokens(self, which: str) -> Tensor:
        case = self.case
        return case.prompts["tokens"] if which == "prompts" else case.pairs[f"{which}.tokens"]

    def predicted(self, which: str, edits: Edits, prompts: int | None = None) -> Tensor:
        """The predictions under some edits, on all prompts or on the first ones."""
        tokens = self.tokens(which)[:prompts]
        return run(self.case.transformer, tokens, self.case.seen["context"], edits)

    @property
    def kernel(self) -> Kernel:
        return kernel_from(self.case.seen["kernel"])

    @cached_property
    def rows(self) -> Mapping[str, tuple[int, ...]]:
        seen = self.case.seen
        supports, queries = (tuple(seen["rows"][name]) for name in ("supports", "queries"))
        return named_rows(seen["registers"], supports, queries)

    @property
    def compiled(self) -> bool:
        return "certificate" in self.case.labels

    @cached_property
    def asked(self) -> list[Asked]:
        labels = self.case.labels
        if not self.compiled:
            supports = list(self.rows["supports"])
            steps = range(2, CONTROL_STEPS + 1)
            return [Asked("alpha", t, CONTROL_STEPS, supports, 1) for t in steps]
        return [
            Asked(
                place["state"],
                place["step"],
                labels["steps"],
                list(self.rows[place["rows"]]),
                self.case.subspaces[place["basis"]].shape[1],
            )
            for place in labels["states"]
        ]


@dataclass(frozen=True)
class Found:
    """A subspace at a site."""

    site: str
    basis: Float[Tensor, "d m"]
