"""`ClassTask`: two classes of words or numbers, half of the inputs from each, in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.language.tasks.base import LanguageTask, Problems, Texts, shuffled
from ridgeformer.tasks import generator_of


@dataclass(frozen=True)
class ClassTask(LanguageTask):
    """Which of two classes is the input in? No input occurs twice in a problem."""

    classes: ClassVar[tuple[str, str]]
    """The names of the classes, which are their natural labels."""
    members: ClassVar[tuple[Texts, Texts]]
    numeric: ClassVar[bool] = False
    """Whether the inputs are numbers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        room = min(map(len, self.members))
        needed = -(-self.supports // 2) - (-self.queries // 2)
        self.require(needed <= room, f"at most {room} inputs of a class", "supports", "queries")

    def draw(self, batch: int, seed: int) -> Problems:
        generator = generator_of(seed)
        members = balanced(generator, batch, self.supports, self.queries)
        return self.labelled(members, members, generator)

    def labelled(
        self,
        members: Int[Tensor, "batch n"],
        labels: Int[Tensor, "batch n"],
        generator: torch.Generator,
    ) -> Problems:
        """Problems whose inputs are members of the given classes, with the given labels."""
        batch, k = len(members), self.supports
        texts = [[""] * members.shape[1] for _ in range(batch)]
        for which, words in enumerate(self.members):
            order = shuffled(generator, batch, len(words))
            rank = (members == which).cumsum(dim=1) - 1  # the how manieth of its class an input is
            chosen = order.gather(1, rank.clamp(min=0))
            for row, column in (members == which).nonzero().tolist():
                texts[row][column] = words[int(chosen[row, column])]
        numbers = self.numbers(texts) if self.numeric else None
        return Problems(
            inputs=tuple(tuple(row[:k]) for row in texts),
            targets=labels[:, :k].double(),
            queries=tuple(tuple(row[k:]) for row in texts),
            query_targets=labels[:, k:].double(),
            features=None if numbers is None else numbers[:, :k],
            query_features=None if numbers is None else numbers[:, k:],
        )

    def numbers(self, texts: list[list[str]]) -> Float[Tensor, "batch n 1"]:
        values = [[float(text) for text in row] for row in texts]
        return torch.tensor(values, dtype=torch.float64)[..., None]


def balanced(
    generator: torch.Generator, batch: int, supports: int, queries: int
) -> Int[Tensor, "batch n"]:
    """Classes in random order, as many of each among supports and among queries, or one more of either."""
    parts = []
    for count in (supports, queries):
        first = torch.randint(2, (batch, 1), generator=generator)
        alternating = (torch.arange(count) + first) % 2
        parts.append(alternating.gather(1, shuffled(generator, batch, count)))
    return torch.cat(parts, dim=1)
