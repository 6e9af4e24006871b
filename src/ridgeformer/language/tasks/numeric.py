"""`NumericTask`: regression on numbers that are written out, inputs and targets in the same format.

A function is drawn on [0, 1]^p. Its range over the domain is moved to a random interval that begins in the lowest
30 % of the format's numbers and ends in the highest 30 %; noise is added, and all is rounded to the format.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.formats import FORMATS, NumberFormat
from ridgeformer.language.tasks.base import LanguageTask, Problems, shuffled
from ridgeformer.tasks import generator_of
from ridgeformer.tasks.learnable import normal, uniform


@dataclass(frozen=True)
class NumericTask(LanguageTask):
    """Given numbers and their targets, what is the target of another number?"""

    format: str = "integers"
    noise: float = 0.01
    """The standard deviation of noise, as a share of the distance from the format's lowest to its highest number."""

    dimensions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.noise <= 0.05, "a noise from 0 to 0.05", "noise")
        room = self.number_format().count ** self.dimensions
        needed = self.supports + self.queries
        self.require(needed <= room, f"at most {room} inputs", "supports", "queries")

    def number_format(self) -> NumberFormat:
        return FORMATS.find(self.format)

    @abstractmethod
    def observe(
        self, x: Float[Tensor, "batch n p"], generator: torch.Generator
    ) -> Float[Tensor, "batch n"]:
        """Draws a function for each problem, and evaluates it at points of [0, 1]^p."""

    def draw(self, batch: int, seed: int) -> Problems:
        generator, written = generator_of(seed), self.number_format()
        k, n = self.supports, self.supports + self.queries
        x = self.points(batch, n, generator)
        share = x.double() / (written.count - 1)
        # With the whole domain among the points, a function's range does not depend on the inputs.
        values = self.observe(torch.cat([share, self.domain(batch)], dim=1), generator)
        low, high = values.amin(1, keepdim=True), values.amax(1, keepdim=True)
        bottom, top = 0.3 * uniform(generator, batch, 1), 1 - 0.3 * uniform(generator, batch, 1)
        y = bottom + (top - bottom) * (values[:, :n] - low) / (high - low)
        margin = 4 * self.noise  # so that noise is hardly ever cut off at the ends of the format
        y = margin + (1 - 2 * margin) * y + self.noise * normal(generator, batch, n)
        features, targets = written.values[x], written.values[written.indices(y)]
        texts = [[self.text(point) for point in row] for row in x.tolist()]
        return Problems(
            inputs=tuple(tuple(row[:k]) for row in texts),
            targets=targets[:, :k],
            queries=tuple(tuple(row[k:]) for row in texts),
            query_targets=targets[:, k:],
            features=features[:, :k],
            query_features=features[:, k:],
        )

    def text(self, point: list[int]) -> str:
        return ", ".join(self.number_format().text(index) for index in point)

    def points(self, batch: int, n: int, generator: torch.Generator) -> Tensor:
        """Indices of inputs, none of which occurs twice in a problem."""
        count = self.number_format().count
        if self.dimensions == 1:
            return shuffled(generator, batch, count)[:, :n, None]
        # The first n of more draws than needed that were not drawn before, so that memory stays small.
        drawn = torch.randint(count, (batch, 4 * n, self.dimensions), generator=generator)
        code = (drawn * count ** torch.arange(self.dimensions)).sum(-1)
        again = (code[:, :, None] == code[:, None, :]).tril(-1).any(-1)
        order = again.long().argsort(dim=1, stable=True)[:, :n]
        return drawn.gather(1, order[..., None].expand(-1, -1, self.dimensions))

    def domain(self, batch: int) -> Float[Tensor, "batch m p"]:
        """Points that cover [0, 1]^p, its corners among them."""
        side = torch.linspace(0, 1, 91 if self.dimensions == 1 else 11, dtype=torch.float64)
        grid = torch.tensor(list(product(side.tolist(), repeat=self.dimensions)))
        return grid.double().expand(batch, -1, -1)
