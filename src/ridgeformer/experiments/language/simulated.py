"""Simulated learners: the responses of a known learner, seen as those of a language model are, with noise.

A learner has the influence of its predictor on the features of words. What the instrument sees of it may be spoilt in the
ways in which a language model's responses are:

    ceiling    the responses have noise, so that the correlation of their interactions with the learner's own is this
    features   the instrument sees other features than the learner does: theirs plus noise of so many times their spread
    recency    every support has an influence on all queries alike, which rises from the first to the last by so many times
               the size of the interactions
    places     later supports count more, from 1 − places for the first to 1 + places for the last
    gains      queries answer more or less strongly, by factors exp(gains · normal)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.analysis.in_context import (
    Copies,
    FixedMetric,
    LastTarget,
    Observations,
    Predictor,
    Ridge,
    Smoothing,
    View,
    diagonal_unit,
    interactions,
    neighbours,
    with_copies,
)
from ridgeformer.analysis.in_context.choice import tempered
from ridgeformer.analysis.in_context.copies import per_copy
from ridgeformer.analysis.in_context.verdict import Kind
from ridgeformer.kernels import Linear
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import generator_of, normal, uniform
from ridgeformer.types import Refusal

VIEW = View(Linear(), centre="prompt", unit=True)
"""Cosines of features, less the mean of the prompt's supports: what learners and instrument compare words by."""


@dataclass(frozen=True)
class Noise:
    ceiling: float = 1.0
    features: float = 0.0
    recency: float = 0.0
    places: float = 0.0
    gains: float = 0.0

    def __post_init__(self) -> None:
        if (
            not 0 < self.ceiling <= 1
            or min(self.features, self.recency, self.places, self.gains) < 0
        ):
            raise Refusal(
                f"Noise needs a ceiling above 0 and at most 1, and no negative number; got {self}."
            )


@dataclass(frozen=True)
class Learner:
    name: str
    kind: Kind
    """What the instrument should say of it."""
    predictor: Callable[[Prompt, Tensor], Predictor]
    """Made for prompts of its own features, and given those of all words."""


def ridge_learner(ridge: float) -> Learner:
    """λ is in units of the mean kernel diagonal; ∞ is pure similarity."""

    def made(prompt: Prompt, _: Tensor) -> Predictor:
        unit = 1.0 if ridge == inf else diagonal_unit(prompt, VIEW.kernel)
        return Ridge(ridge * unit, VIEW.kernel)

    if ridge == inf:
        return Learner("similarity", "similarity", made)
    return Learner(f"ridge regression, λ = {ridge:g}", "kernel ridge regression", made)


def smoothing_learner(heat: int = 2) -> Learner:
    """Nadaraya–Watson with one of the temperatures that the instrument tries."""

    def made(prompt: Prompt, _: Tensor) -> Predictor:
        return Smoothing(tempered(prompt, VIEW.kernel)[heat], VIEW.kernel)

    return Learner("Nadaraya–Watson", "similarity", made)


def metric_learner(ridge: float) -> Learner:
    """Similarity in the metric of all words, which is that of ridge regression on very many supports."""

    def made(prompt: Prompt, words: Tensor) -> Predictor:
        apart = words - words.mean(0)
        apart = apart / apart.norm(dim=-1, keepdim=True)
        unit = diagonal_unit(prompt, VIEW.kernel)
        return FixedMetric(ridge * unit, VIEW.kernel, apart, prompt.supports)

    return Learner(f"similarity in a fixed metric, λ = {ridge:g}", "similarity", made)


def neighbour_learner(count: int) -> Learner:
    return Learner(f"{count} nearest", "neighbours", lambda prompt, _: neighbours(count))


def last_learner() -> Learner:
    return Learner("last target", "recency", lambda prompt, _: LastTarget())


LEARNERS = (
    ridge_learner(0.1),
    ridge_learner(1.0),
    ridge_learner(inf),
    smoothing_learner(),
    metric_learner(0.1),
    neighbour_learner(1),
    neighbour_learner(3),
    last_learner(),
)


def draw_words(
    words: int = 60,
    features: int = 96,
    *,
    decay: float = 1.0,
    classes: float = 1.0,
    mean: float = 2.0,
    seed: int,
) -> Float[Tensor, "words p"]:
    """Features of words in two classes: variances fall like 1/n^decay, classes are apart, and a common mean is large.

    `classes` and `mean` are the distances of both classes from the mean, and of the mean from 0, in units of the
    length of what is a word's own. Words of the classes alternate.
    """
    generator = generator_of(seed, 0x80)
    scale = torch.arange(1, features + 1, dtype=torch.float64) ** (-decay / 2)
    own = normal(generator, words, features) * scale
    directions = normal(generator, 2, features)
    directions = directions / directions.norm(dim=-1, keepdim=True)
    sign = 1.0 - 2.0 * (torch.arange(words) % 2)
    common = mean * directions[0] + classes * sign[:, None] * directions[1]
    found: Tensor = own + float(scale.norm()) * common
    return found


def simulate(
    words: Float[Tensor, "words p"],
    learner: Learner,
    noise: Noise,
    *,
    prompts: int = 25,
    supports: int = 16,
    queries: int = 6,
    copies: int = 3,
    seed: int,
    noise_seed: int = 0,
) -> tuple[Observations, Copies]:
    """What the instrument sees of a learner, on prompts of random words with random labels, and of as many copies of a support.

    The noise of features is drawn by `noise_seed`, so that prompts of two seeds have the same.
    """
    if supports + queries > len(words):
        raise Refusal(
            f"Prompts of {supports} supports and {queries} queries need as many words; got {len(words)}."
        )
    generator = generator_of(seed, 0x81)
    drawn = uniform(generator, prompts, len(words)).argsort(-1)
    chosen, asked = drawn[:, :supports], drawn[:, supports : supports + queries]
    y = 2.0 * (uniform(generator, prompts, supports) < 0.5).double() - 1.0
    slots = uniform(generator, prompts, supports).argsort(-1)[:, :copies]
    own = seen_as(words, chosen, asked, y)
    prompt = VIEW.prompt(own)
    predictor = learner.predictor(prompt, words)
    both = [predictor.influence(one) for one in (prompt, with_copies(prompt, slots))]
    influence, of_copies = weighed(torch.stack(both), noise.places, noise.gains, generator)
    repeated = per_copy(of_copies, slots)
    spread = response_noise(influence, noise.ceiling)
    size = float(interactions(influence).std())
    influence = influence + noise.recency * size * (rising_evenly(supports)[:, None] + 1)
    influence = influence + spread * normal(generator, prompts, supports, queries)
    repeated = repeated + spread * normal(generator, prompts, queries)
    once = influence[torch.arange(prompts), slots[:, 0]]
    outputs = torch.einsum("bkq,bk->bq", influence, y)
    apart = (words - words.mean(0)).square().mean().sqrt()
    seen = words + noise.features * apart * normal(generator_of(noise_seed, 0x82), *words.shape)
    observed = seen_as(seen, chosen, asked, y, outputs, influence, seed)
    return observed, Copies(slots, once, repeated)


def weighed(
    influence: Float[Tensor, "*more batch k q"],
    places: float,
    gains: float,
    generator: torch.Generator,
) -> Float[Tensor, "*more batch k q"]:
    """The influence with places that count more, and queries that answer more strongly, the same for all of `more`."""
    batch, k, q = influence.shape[-3:]
    gain = (gains * normal(generator, batch, 1, q)).exp()
    return influence * (1 + places * rising_evenly(k))[:, None] * gain


def rising_evenly(supports: int) -> Float[Tensor, " k"]:
    """From −1 for the first support to 1 for the last."""
    return torch.linspace(-1, 1, supports, dtype=torch.float64)


def response_noise(influence: Float[Tensor, "batch k q"], ceiling: float) -> float:
    """The standard deviation of noise that lowers the correlation of interactions to the ceiling."""
    _, k, q = influence.shape
    left = interactions(influence).square().mean()
    # Recency leaves no interactions, and its noise is a part of the whole.
    size = left if left > 0 else influence.var()
    part = (k - 1) * (q - 1) / (k * q)  # of the variance of noise that is among interactions
    return float((size / part * (ceiling**-2 - 1)).sqrt())


def seen_as(
    seen: Float[Tensor, "words p"],
    chosen: Int[Tensor, "batch k"],
    asked: Int[Tensor, "batch q"],
    y: Float[Tensor, "batch k"],
    outputs: Float[Tensor, "batch q"] | None = None,
    influence: Float[Tensor, "batch k q"] | None = None,
    seed: int = 0,
) -> Observations:
    nothing = torch.zeros(*asked.shape, dtype=torch.float64)
    none = torch.zeros(*chosen.shape, asked.shape[1], dtype=torch.float64)
    return Observations(
        seen[chosen][None],
        seen[asked][None],
        y,
        nothing if outputs is None else outputs,
        none if influence is None else influence,
        seed,
    )
