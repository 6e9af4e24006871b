"""Flipped labels: some supports have the wrong label, which a smoother averages away and a nearest neighbour copies."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.base import Problems, shuffled
from ridgeformer.language.tasks.classes import balanced
from ridgeformer.language.tasks.relabelled import RelabelledTask
from ridgeformer.tasks import generator_of


@dataclass(frozen=True)
class FlippedLabels(RelabelledTask):
    """Another task with a share of its supports' labels flipped; the queries' targets are the true classes."""

    share: float = 0.25

    name = "flipped-labels"
    summary = "another task, with some of its examples labelled wrongly"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.share <= 1, "a share from 0 to 1", "share")

    def draw(self, batch: int, seed: int) -> Problems:
        generator = generator_of(seed)
        members = balanced(generator, batch, self.supports, self.queries)
        labels = members.clone()
        wrong = shuffled(generator, batch, self.supports) < round(self.share * self.supports)
        labels[:, : self.supports] = members[:, : self.supports] ^ wrong.long()
        return self.inputs_of().labelled(members, labels, generator)
