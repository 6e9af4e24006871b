"""Observations of learners that are known exactly, on Gaussian features, for tests of the instrument."""

from dataclasses import replace

import torch

from ridgeformer.analysis.in_context import Copies, Observations, View, with_copies
from ridgeformer.analysis.in_context.copies import per_copy
from ridgeformer.kernels import Linear
from ridgeformer.tasks.learnable import generator_of, normal

LINEAR = View(Linear())


def drawn(*shape, seed=0):
    return normal(generator_of(seed, 17), *shape)


def features(batch=16, k=10, q=5, p=6, seed=0, layers=1):
    """Features whose variances fall from 2 to ¼, so that ridge regression is far from similarity."""
    scale = torch.logspace(0.3, -0.6, p, dtype=torch.float64)
    both = drawn(layers, batch, k + q, p, seed=seed) * scale
    return both[:, :, :k], both[:, :, k:]


def observed(predictor, *, view=LINEAR, seed=0, noise=0.0, **sizes):
    """What a learner with that predictor answers; `noise` is in units of its influence's standard deviation."""
    supports, queries = features(seed=seed, **sizes)
    _, batch, k, _ = supports.shape
    q = queries.shape[2]
    targets = drawn(batch, k, seed=seed + 1000)
    nothing = Observations(
        supports, queries, targets, torch.zeros(batch, q).double(), torch.zeros(batch, k, q).double(), seed
    )  # fmt: skip
    influence = predictor.influence(view.prompt(nothing))
    influence = influence + noise * influence.std() * drawn(batch, k, q, seed=seed + 2000)
    outputs = torch.einsum("bkq,bk->bq", influence, targets)
    return Observations(supports, queries, targets, outputs, influence, seed)


def joined(first, second):
    """The prompts of both, under the seed of the first."""
    by_prompt = {
        name: torch.cat([getattr(first, name), getattr(second, name)])
        for name in ("targets", "outputs", "influence")
    }
    by_layer = {
        name: torch.cat([getattr(first, name), getattr(second, name)], dim=1)
        for name in ("supports", "queries")
    }
    return replace(first, **by_prompt, **by_layer)


def copied(predictor, observations, *, view=LINEAR, count=3, noise=0.0, seed=0):
    """The same learner's responses to copies of one support of each prompt, at distances that are the same for all."""
    prompt = view.prompt(observations)
    batch, q = observations.outputs.shape
    slots = (torch.arange(batch)[:, None] + 2 * torch.arange(count)) % prompt.supports
    influence = predictor.influence(prompt)
    once = influence[torch.arange(batch), slots[:, 0]]
    repeated = per_copy(predictor.influence(with_copies(prompt, slots)), slots)
    spread = noise * influence.std()
    return Copies(
        slots,
        once + spread * drawn(batch, q, seed=seed + 3000),
        repeated + spread * drawn(batch, q, seed=seed + 4000),
    )
