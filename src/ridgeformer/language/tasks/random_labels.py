"""Random labels: there is no rule, so that only what a model does with examples is left."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.base import Problems
from ridgeformer.language.tasks.classes import balanced
from ridgeformer.language.tasks.relabelled import RelabelledTask
from ridgeformer.tasks import generator_of


@dataclass(frozen=True)
class RandomLabels(RelabelledTask):
    """The inputs of another task, with labels that know nothing of them; half of each."""

    name = "random-labels"
    summary = "the inputs of another task with random labels"

    def draw(self, batch: int, seed: int) -> Problems:
        generator = generator_of(seed)
        members = balanced(generator, batch, self.supports, self.queries)
        labels = balanced(generator, batch, self.supports, self.queries)
        return self.inputs_of().labelled(members, labels, generator)
