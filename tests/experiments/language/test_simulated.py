"""Simulated learners: their noise is what it says, verdicts on them are right, and rates have intervals."""

from collections import Counter
from math import inf

import pytest
import torch

from ridgeformer.analysis.in_context import (
    choose,
    influence_agreement,
    interactions,
    judge,
    with_copies,
)
from ridgeformer.analysis.in_context.verdict import RIVALS
from ridgeformer.experiments.language.power import Rates, find_rates, mixed
from ridgeformer.experiments.language.simulated import (
    LEARNERS,
    VIEW,
    Noise,
    draw_words,
    metric_learner,
    ridge_learner,
    simulate,
    smoothing_learner,
)
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

WORDS = draw_words(seed=0)
MEASURED = Noise(ceiling=0.5, recency=1.0, places=0.15, gains=0.25)
"""What states of words after a neutral example explain of SmolLM2-135M's influence, and how that varies by place and query."""


def test_words_have_the_geometry_that_is_asked_for():
    words = draw_words(400, 50, decay=1.0, classes=0.5, mean=3.0, seed=1)
    sign = 1.0 - 2.0 * (torch.arange(400) % 2)
    own = float((1 / torch.arange(1, 51).double()).sum().sqrt())
    apart = ((words[sign > 0].mean(0) - words[sign < 0].mean(0)) / 2).norm()
    assert float(apart) == pytest.approx(0.5 * own, rel=0.2)
    assert float(words.mean(0).norm()) == pytest.approx(3 * own, rel=0.1)
    assert torch.equal(words, draw_words(400, 50, decay=1.0, classes=0.5, mean=3.0, seed=1))


@pytest.mark.parametrize("ceiling", [0.35, 0.8])
@pytest.mark.parametrize("learner", [ridge_learner(0.1), ridge_learner(inf)], ids=lambda x: x.name)
def test_the_ceiling_is_the_correlation_with_the_learners_own_influence(ceiling, learner):
    exact, _ = simulate(WORDS, learner, Noise(), prompts=200, seed=3)
    noisy, _ = simulate(WORDS, learner, Noise(ceiling), prompts=200, seed=3)
    sides = [interactions(o.influence).flatten() for o in (exact, noisy)]
    found = float(torch.corrcoef(torch.stack(sides))[0, 1])
    assert found == pytest.approx(ceiling, abs=0.02)


def test_noise_of_features_is_the_same_for_prompts_of_both_seeds():
    learner, noise = ridge_learner(0.1), Noise(features=0.5)
    exact, _ = simulate(WORDS, learner, Noise(), seed=3)
    spoilt, _ = simulate(WORDS, learner, noise, seed=3, noise_seed=1)
    again, _ = simulate(WORDS, learner, noise, seed=3, noise_seed=2)
    assert torch.equal(exact.influence, spoilt.influence)
    spread = float((WORDS - WORDS.mean(0)).square().mean().sqrt())
    assert float((spoilt.supports - exact.supports).std()) == pytest.approx(0.5 * spread, rel=0.1)
    assert not torch.equal(again.supports, spoilt.supports)
    other, _ = simulate(WORDS, learner, noise, prompts=200, seed=4, noise_seed=1)
    seen = {tuple(row.tolist()) for row in other.supports[0].flatten(0, 1)}
    assert sum(tuple(row.tolist()) in seen for row in spoilt.supports[0, 0]) == 16


def test_recency_and_places_raise_the_influence_of_later_supports():
    learner = ridge_learner(inf)
    plain, copies = simulate(WORDS, learner, Noise(), seed=3)
    recent, _ = simulate(WORDS, learner, Noise(recency=2.0), seed=3)
    added = recent.influence - plain.influence
    assert (added.diff(dim=1) > 0).all()
    torch.testing.assert_close(interactions(recent.influence), interactions(plain.influence))
    weighed, of_weighed = simulate(WORDS, learner, Noise(places=0.5), seed=3)
    torch.testing.assert_close(weighed.influence[:, 0], 0.5 * plain.influence[:, 0])
    torch.testing.assert_close(weighed.influence[:, -1], 1.5 * plain.influence[:, -1])
    factors = 1 + 0.5 * torch.linspace(-1, 1, 16).double()[copies.slots].mean(1)
    torch.testing.assert_close(of_weighed.repeated, factors[:, None] * copies.repeated)
    strong, _ = simulate(WORDS, learner, Noise(gains=0.5), seed=3)
    factors = strong.influence / plain.influence
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))


def test_a_learner_agrees_with_itself():
    for learner in (LEARNERS[0], LEARNERS[3], LEARNERS[4]):
        found, copies = simulate(WORDS, learner, Noise(), seed=3)
        prompt = VIEW.prompt(found)
        own = learner.predictor(prompt, WORDS).influence(prompt)
        torch.testing.assert_close(
            influence_agreement(found.influence, own), torch.ones(25).double()
        )
        rows = torch.arange(25)
        torch.testing.assert_close(copies.once, own[rows, copies.slots[:, 0]])
        again = learner.predictor(prompt, WORDS).influence(with_copies(prompt, copies.slots))
        torch.testing.assert_close(copies.repeated, again[rows[:, None], copies.slots].mean(1))


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda x: x.name)
def test_learners_are_named_under_little_noise(learner):
    rates = find_rates(learner, Noise(0.9, recency=0.5), repeats=2, prompts=25, seed=0)
    assert rates.power[0] == 1, rates.verdicts


def test_rates_are_shares_with_exact_intervals():
    rates = Rates(
        LEARNERS[0], Noise(), Counter({"kernel ridge regression": 19, "similarity": 1}), ()
    )
    share, low, high = rates.power
    assert share == 0.95
    assert (low, high) == pytest.approx((0.7513, 0.9987), abs=1e-4)  # Clopper and Pearson
    assert rates.share("neighbours")[0] == 0


def test_impossible_simulations_are_refused():
    with pytest.raises(Refusal, match="ceiling above 0"):
        Noise(ceiling=0.0)
    with pytest.raises(Refusal, match="no negative number"):
        Noise(gains=-1.0)
    with pytest.raises(Refusal, match="need as many words"):
        simulate(WORDS[:10], LEARNERS[0], Noise(), seed=0)
    with pytest.raises(Refusal, match="at least one verdict"):
        find_rates(LEARNERS[0], Noise(), repeats=0)


@pytest.mark.slow
@pytest.mark.parametrize("ceiling", [1.0, 0.9, 0.33])
@pytest.mark.parametrize("learner", [LEARNERS[n] for n in (0, 2, 3, 5)], ids=lambda x: x.name)
def test_copies_seldom_reject_the_kind_that_is_right(learner, ceiling):
    """More than 10 of 100 would be a chance of one in a hundred, if it were five on average."""
    members, others = RIVALS[learner.kind]
    rejected = 0
    for number in range(100):
        (first, _), (second, copies) = (
            simulate(WORDS, learner, Noise(ceiling), seed=mixed(91, number, part))
            for part in (1, 2)
        )
        discount = judge(choose(first, [VIEW]), second, copies, seed=number).discount
        rejected += all(discount.rejects(own, others) for own in members)
    assert rejected <= 10


@pytest.mark.slow
def test_ridge_regression_on_other_features_is_not_found():
    """A limit: noise of features takes the power that noise of responses leaves at the same agreement."""
    learner, other = ridge_learner(0.1), Noise(0.8, features=2.0)
    seen, _ = simulate(WORDS, learner, other, prompts=100, queries=12, seed=3)
    own = learner.predictor(VIEW.prompt(seen), WORDS).influence(VIEW.prompt(seen))
    ceiling = float(influence_agreement(seen.influence, own).mean())
    found = [
        find_rates(learner, noise, repeats=20, queries=12, words=WORDS, seed=2).power[0]
        for noise in (Noise(ceiling), other)
    ]
    assert found[0] >= found[1] + 0.3
    assert found[1] <= 0.3


@pytest.mark.slow
def test_ridge_regression_is_found_under_the_noise_of_a_language_model():
    rates = find_rates(ridge_learner(0.1), MEASURED, repeats=100, seed=0)
    assert rates.power[0] >= 0.9
    median = sorted(rates.ridges)[50]
    assert median == pytest.approx(0.1, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [ridge_learner(inf), smoothing_learner(), metric_learner(0.1)],
    ids=lambda x: x.name,
)
@pytest.mark.parametrize("features", [0.0, 0.5])
def test_similarity_is_not_called_ridge_regression(learner, features):
    noise = Noise(0.5, features, 1.0, 0.15, 0.25)
    rates = find_rates(learner, noise, repeats=60, seed=1)
    assert rates.share("kernel ridge regression")[0] <= 0.05
