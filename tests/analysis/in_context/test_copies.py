"""Copies: the discount in closed form, the λ that it tells, the way between predictors, and the power of the test."""

from math import inf

import numpy as np
import pytest
import torch
from planted_learners import LINEAR, copied, drawn, observed

from ridgeformer.analysis.in_context import (
    Copies,
    FixedMetric,
    Ridge,
    Smoothing,
    diagonal_unit,
    discount_spread,
    find_discount,
    neighbours,
    power_of_test,
    prompts_needed,
    with_copies,
)
from ridgeformer.analysis.in_context.copies import expected_sums, instrument, per_copy, way
from ridgeformer.kernels import Linear
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

RIDGE, SIMILARITY, SMOOTH = Ridge(0.4, Linear()), Ridge(inf, Linear()), Smoothing(1.0, Linear())
KINDS = {"ridge": RIDGE, "similarity": SIMILARITY, "smoothing": SMOOTH, "neighbours": neighbours(1)}


def test_copies_replace_other_supports_with_their_targets():
    prompt = Prompt(drawn(3, 6, 2), drawn(3, 6, 1, seed=1), drawn(3, 5, 2, seed=2))
    slots = torch.tensor([[0, 3, 1], [3, 5, 0], [2, 0, 1]])
    repeated = with_copies(prompt, slots)
    assert repeated.phi_query is prompt.phi_query
    for b, places in enumerate(slots.tolist()):
        for i in range(6):
            of = places[0] if i in places else i
            assert torch.equal(repeated.phi[b, i], prompt.phi[b, of])
            assert torch.equal(repeated.y[b, i], prompt.y[b, of])
    values = drawn(2, 3, 6, 5, seed=3)
    by_hand = [values[:, b, places].mean(1) for b, places in enumerate(slots.tolist())]
    torch.testing.assert_close(per_copy(values, slots), torch.stack(by_hand, dim=1))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_one_support_alone_is_discounted_as_the_formula_says(count):
    """(κ + λ)/(cκ + λ), where others are orthogonal to it and to the queries."""
    phi = torch.eye(7).double()[None] * 1.3
    query = torch.nn.functional.pad(torch.tensor([1.0, 0.4, -0.7]).double()[None, :, None], (0, 6))
    prompt = Prompt(phi, torch.ones(1, 7, 1).double(), query)
    slots, kappa = torch.tensor([[0, 3, 1, 6, 4][:count]]), 1.69
    s = instrument(prompt, slots, Linear())
    repeated, once = expected_sums(prompt, slots, s, RIDGE)[0].tolist()
    assert repeated / once == pytest.approx((kappa + 0.4) / (count * kappa + 0.4))
    repeated, once = expected_sums(prompt, slots, s, SIMILARITY)[0].tolist()
    assert repeated / once == pytest.approx(1)
    repeated, once = expected_sums(prompt, slots, s, neighbours(1))[0].tolist()
    assert repeated / once == pytest.approx(1 / count)


def test_a_metric_that_is_the_same_for_all_prompts_discounts_nothing():
    found = observed(RIDGE)
    metric = FixedMetric(0.4, Linear(), drawn(50, 6, seed=9), 10)
    discount = find_discount(
        found, copied(metric, found), LINEAR, {"metric": metric, **KINDS}, seed=0
    )
    assert discount.expected["metric"] == pytest.approx(1)
    assert discount.ratio.mean == pytest.approx(1)


@pytest.mark.parametrize("name", KINDS)
def test_each_learner_is_at_its_own_end_of_every_way(name):
    found = observed(KINDS[name], batch=30)
    discount = find_discount(found, copied(KINDS[name], found), LINEAR, KINDS, seed=0)
    assert discount.ratio.mean == pytest.approx(discount.expected[name])
    for other in KINDS.keys() - {name}:
        there, back = discount.ways[other, name], discount.ways[name, other]
        assert there.mean == pytest.approx(1)
        assert there.low > 0
        assert back.mean == pytest.approx(0, abs=1e-9)
        assert discount.rejects(other, [name])
        assert discount.rejects(other, [n for n in KINDS if n != other])
    assert not discount.rejects(name, [n for n in KINDS if n != name])


@pytest.mark.parametrize("ridge", [0.05, 0.4, 3.0])
def test_copies_tell_the_ridge(ridge):
    found = observed(Ridge(ridge, Linear()))
    unit = diagonal_unit(LINEAR.prompt(found), Linear())
    discount = find_discount(found, copied(Ridge(ridge, Linear()), found), LINEAR, {}, seed=0)
    assert discount.ridge.times(unit).value == pytest.approx(ridge, rel=0.02)
    similar = find_discount(found, copied(SIMILARITY, found), LINEAR, {}, seed=0)
    assert similar.ridge.value == inf


def test_noise_does_not_bias_the_discount():
    """A slope of repeated on single responses would be lowered by the noise of the latter to a third."""
    found = observed(SIMILARITY, batch=400)
    noisy = copied(SIMILARITY, found, noise=1.5)
    discount = find_discount(found, noisy, LINEAR, KINDS, seed=0)
    assert discount.ratio.low < 1 < discount.ratio.high
    assert discount.ratio.high - discount.ratio.low < 0.5
    slope = float((noisy.once * noisy.repeated).sum() / noisy.once.square().sum())
    assert slope < 0.5


def test_a_constant_shift_of_all_queries_has_no_part_in_it():
    found = observed(RIDGE)
    exact = copied(RIDGE, found)
    shifted = Copies(exact.slots, exact.once + 4, exact.repeated - 7)
    both = [find_discount(found, c, LINEAR, KINDS, seed=0).ratio.mean for c in (exact, shifted)]
    assert both[0] == pytest.approx(both[1])


def test_responses_that_follow_no_similarity_have_no_discount():
    found = observed(RIDGE)
    exact = copied(RIDGE, found)
    backwards = Copies(exact.slots, -exact.once, -exact.repeated)
    discount = find_discount(found, backwards, LINEAR, KINDS, seed=0)
    assert discount.ratio.mean is None
    assert not discount.rejects("ridge", ["similarity"])
    same = way(*[torch.ones(5, 2).double()] * 3, torch.ones(5).double())
    assert same.isnan().all(), "predictors that do not differ have no way between them"


def test_the_power_that_is_worked_out_is_the_power_that_is_found():
    """Ridge regression against similarity at several noises: the normal theory beside 200 simulated experiments."""
    prompts, trials = 16, 200
    found = observed(RIDGE, batch=prompts * trials)
    prompt = LINEAR.prompt(found)
    influence = RIDGE.influence(prompt)
    for noise in (1.0, 2.5):
        spread = noise * float(influence.std())
        copies = copied(RIDGE, found, noise=noise)
        mean, deviation = discount_spread(prompt, copies.slots, Linear(), RIDGE, SIMILARITY, spread)
        assert mean == pytest.approx(1)
        expected = power_of_test(mean, deviation, prompts)
        s = instrument(prompt, copies.slots, Linear())
        size = s.square().sum(-1)
        seen = torch.stack([(s * x).sum(-1) for x in (copies.repeated, copies.once)], 1)
        wrong, right = (expected_sums(prompt, copies.slots, s, one) for one in (SIMILARITY, RIDGE))
        t = way(seen, wrong, right, size).reshape(trials, prompts)
        statistic = t.mean(1) / (t.std(1) / prompts**0.5)
        share = float((statistic > 2.131).double().mean())  # Student's t with 15 degrees of freedom
        assert share == pytest.approx(expected, abs=0.12)
    assert power_of_test(1.0, deviation, prompts_needed(1.0, deviation)) >= 0.9
    assert power_of_test(1.0, deviation, prompts_needed(1.0, deviation) - 1) < 0.9
    assert prompts_needed(1e-6, 1.0) is None
    assert power_of_test(0.0, 1.0, 20) == pytest.approx(0.025, abs=1e-6)
    assert power_of_test(1.0, 1.0, 1) == 0


def test_copies_that_do_not_fit_are_refused():
    found = observed(RIDGE)
    exact = copied(RIDGE, found)
    with pytest.raises(Refusal, match="at least twice"):
        Copies(exact.slots[:, :1], exact.once, exact.repeated)
    with pytest.raises(Refusal, match="named twice"):
        Copies(exact.slots[:, [0, 1, 0]], exact.once, exact.repeated)
    with pytest.raises(Refusal, match="named twice"):
        with_copies(LINEAR.prompt(found), exact.slots[:, [2, 2]])
    with pytest.raises(Refusal, match="not all finite"):
        Copies(exact.slots, exact.once, exact.repeated * np.nan)
    with pytest.raises(Refusal, match="same prompts and queries"):
        find_discount(found[:8], exact, LINEAR, KINDS, seed=0)
