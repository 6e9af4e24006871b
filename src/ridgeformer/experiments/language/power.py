"""How often the instrument is right about simulated learners: its power, and its false positives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import scipy
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import choose, judge
from ridgeformer.analysis.in_context.verdict import Kind
from ridgeformer.experiments.language.simulated import VIEW, Learner, Noise, draw_words, simulate
from ridgeformer.tasks.learnable import generator_of
from ridgeformer.types import Refusal

VOCABULARIES = 0xD0
"""This number is part of the seed of words, so that no prompt shares it."""


@dataclass(frozen=True)
class Rates:
    """The verdicts on one learner under one noise, each on prompts, words and noise of its own."""

    learner: Learner
    noise: Noise
    verdicts: Counter[Kind]
    ridges: tuple[float, ...]
    """λ̂ of each verdict, in units of the mean kernel diagonal."""

    @property
    def repeats(self) -> int:
        return self.verdicts.total()

    def share(self, kind: Kind) -> tuple[float, float, float]:
        """How often this was the verdict, with its exact 95 % interval."""
        counted = self.verdicts[kind]
        interval = scipy.stats.binomtest(counted, self.repeats).proportion_ci(0.95)
        return counted / self.repeats, float(interval.low), float(interval.high)

    @property
    def power(self) -> tuple[float, float, float]:
        """How often the verdict was right."""
        return self.share(self.learner.kind)


def find_rates(
    learner: Learner,
    noise: Noise,
    *,
    repeats: int = 100,
    words: Float[Tensor, "words p"] | None = None,
    prompts: int = 25,
    supports: int = 16,
    queries: int = 6,
    with_copies: bool = True,
    seed: int = 0,
) -> Rates:
    """Judges a learner many times: the choice is made on as many prompts as the verdict, of another seed.

    `words` are features of real words; left out, words are drawn for each verdict.
    """
    if repeats < 1:
        raise Refusal(f"Rates need at least one verdict; got {repeats}.")
    verdicts: Counter[Kind] = Counter()
    ridges = []
    for number in range(repeats):
        own = mixed(seed, number)
        vocabulary = draw_words(seed=mixed(VOCABULARIES, own)) if words is None else words
        (first, _), (second, copies) = (
            simulate(
                vocabulary,
                learner,
                noise,
                prompts=prompts,
                supports=supports,
                queries=queries,
                seed=mixed(own, part),
                noise_seed=own,
            )
            for part in (1, 2)
        )
        verdict = judge(choose(first, [VIEW]), second, copies if with_copies else None, seed=seed)
        verdicts[verdict.kind] += 1
        ridges.append(verdict.profile.best.value)
    return Rates(learner, noise, verdicts, tuple(ridges))


def mixed(*parts: int) -> int:
    """One seed of several parts."""
    return generator_of(*parts).initial_seed()
