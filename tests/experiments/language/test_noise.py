"""The noise that simulated learners were given is found again, and rates are those of prompts of the same size."""

from dataclasses import replace
from math import inf

import pytest
import torch

from ridgeformer.analysis.in_context import choose
from ridgeformer.experiments.language.noise import noise_of, rates_under
from ridgeformer.experiments.language.power import mixed
from ridgeformer.experiments.language.simulated import (
    VIEW,
    Noise,
    draw_words,
    neighbour_learner,
    ridge_learner,
    simulate,
    smoothing_learner,
)

pytestmark = pytest.mark.usefixtures("unchecked")

WORDS = draw_words(seed=4)


def seen(learner, noise, prompts=100):
    """A choice, and prompts of another seed."""
    first, second = (
        simulate(WORDS, learner, noise, prompts=prompts, queries=12, seed=mixed(3, part))[0]
        for part in (1, 2)
    )
    return choose(first, [VIEW]), second


@pytest.mark.parametrize(
    "noise",
    [
        Noise(),
        Noise(0.8, recency=0.5, gains=0.25),
        Noise(0.5),
        Noise(0.35, recency=1.0, places=0.3, gains=0.4),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "learner",
    [ridge_learner(0.1), ridge_learner(inf), smoothing_learner()],
    ids=lambda x: x.name,
)
def test_the_noise_of_simulated_learners_is_found(learner, noise):
    choice, second = seen(learner, noise)
    found = noise_of(second, choice)
    assert found.ceiling == pytest.approx(noise.ceiling, abs=0.03)
    assert found.recency == pytest.approx(noise.recency, abs=0.12)
    assert found.places == pytest.approx(noise.places, abs=0.06)
    # A variance that is small beside that of the noise is found less well.
    assert found.gains**2 == pytest.approx(noise.gains**2, abs=0.1)
    assert found.features == 0


def test_what_cannot_be_told_of_one_neighbour_is_nothing():
    """Its influence is on one support for each query, whose gain is that support's own part."""
    choice, second = seen(neighbour_learner(1), Noise(0.5))
    found = noise_of(second, choice)
    assert found.ceiling == pytest.approx(0.5, abs=0.03)
    assert (found.places, found.gains) == (0, 0)


def test_the_noise_does_not_depend_on_the_scale_of_responses():
    choice, second = seen(ridge_learner(inf), Noise(0.5, recency=1.0, gains=0.3), prompts=25)
    larger = replace(second, influence=40 * second.influence)
    one, other = (vars(noise_of(o, choice)) for o in (second, larger))
    assert one == pytest.approx(other, rel=1e-6)


def test_responses_that_agree_with_nothing_have_no_noise_to_simulate():
    choice, second = seen(ridge_learner(inf), Noise(), prompts=25)
    assert noise_of(replace(second, influence=-second.influence), choice) is None
    assert noise_of(replace(second, influence=torch.zeros_like(second.influence)), choice) is None


def test_rates_are_those_of_prompts_like_the_ones_given():
    _, second = seen(ridge_learner(0.1), Noise(), prompts=25)
    ridge, similar = rates_under(Noise(0.9), WORDS, second, repeats=2, seed=1)
    assert ridge.power[0] == similar.power[0] == 1
    assert similar.share("kernel ridge regression")[0] == 0
    assert ridge.repeats == 2
