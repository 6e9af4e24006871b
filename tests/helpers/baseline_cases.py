"""What the tests of baselines share: prompts held out, errors, and baselines fitted once."""

from functools import cache

import torch

from ridgeformer.baselines import (
    BASELINES,
    Adapter,
    LearnedFunctionalSteps,
    LearnedPreconditioners,
    LearnedSteps,
)
from ridgeformer.tasks import (
    LEARNABLE,
)

LEARNED = [LearnedSteps, LearnedPreconditioners, LearnedFunctionalSteps, Adapter]


def held_out(task, prompts, seed=11):
    return task.sample(prompts, torch.Generator().manual_seed(seed))


def error(found, sample):
    """The squared error of every prompt."""
    return (found - sample.targets).square().mean((1, 2))


def assert_mean(values, expected):
    """Within four standard errors, which a true statement leaves once in 16,000."""
    assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / len(values) ** 0.5


@cache
def fitted(name, task):
    """With a small budget: the tests below need not the best, only what is learned."""
    made = BASELINES[name]
    budget = {"updates": 60} if made in LEARNED else {}
    return made(**budget).fit(LEARNABLE[task](), seed=0)
