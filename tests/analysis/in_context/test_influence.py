"""Influence: what centring takes away, agreement by hand, recency, shares, and additivity of changes."""

import numpy as np
import pytest
import torch
from planted_learners import drawn, observed

from ridgeformer.analysis.in_context import (
    Ridge,
    additivity_of_changes,
    compared,
    influence_agreement,
    interactions,
    recency,
    shares_of,
)
from ridgeformer.kernels import Linear

FOUND, OTHER = drawn(9, 6, 4), drawn(9, 6, 4, seed=1)


def test_interactions_have_no_means_and_are_those_of_an_analysis_of_variance():
    left = interactions(FOUND)
    torch.testing.assert_close(left.sum(1), torch.zeros(9, 4).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(left.sum(2), torch.zeros(9, 6).double(), atol=1e-12, rtol=0)
    # Least squares with an indicator for each support and each query, in one prompt.
    rows, columns = np.repeat(np.eye(6), 4, axis=0), np.tile(np.eye(4), (6, 1))
    design = np.c_[rows, columns]
    y = FOUND[3].flatten().numpy()
    rest = y - design @ np.linalg.lstsq(design, y)[0]
    np.testing.assert_allclose(left[3].flatten().numpy(), rest, atol=1e-12)


def test_agreement_is_the_correlation_of_interactions():
    found = influence_agreement(FOUND, OTHER)
    for b in range(9):
        pair = [interactions(x)[b].flatten().numpy() for x in (FOUND, OTHER)]
        assert float(found[b]) == pytest.approx(np.corrcoef(*pair)[0, 1], abs=1e-12)


def test_biases_of_supports_and_queries_have_no_part_in_agreement():
    """A planted bias that is not centred would lower an agreement of 1."""
    learner = observed(Ridge(0.5, Linear()))
    planted = learner.influence + 5 * drawn(16, 10, 1, seed=2) + 5 * drawn(16, 1, 5, seed=3)
    torch.testing.assert_close(
        influence_agreement(planted, learner.influence), torch.ones(16).double()
    )


def test_supports_and_queries_are_not_exchanged():
    """In a prompt with as many queries as supports a transposed influence has the same shape, and no agreement."""
    learner = observed(Ridge(0.5, Linear()), k=8, q=8)
    wrong = influence_agreement(learner.influence, learner.influence.mT.contiguous())
    assert float(wrong.mean()) < 0.3


def test_several_predictions_are_compared_at_once_and_nothing_agrees_with_nothing():
    both = influence_agreement(FOUND, torch.stack([FOUND, -FOUND]))
    torch.testing.assert_close(both, torch.tensor([1.0, -1.0]).double()[:, None].expand(2, 9))
    flat = drawn(9, 6, 1, seed=4).expand(9, 6, 4)
    assert (influence_agreement(flat + 1e3, FOUND) == 0).all()


def test_recency_is_found_and_equal_places_have_none():
    place = torch.arange(6).double()[:, None].expand(9, 6, 4)
    assert (recency(place)[:, 0] > 0.999).all()
    last = torch.zeros(9, 6, 4).double()
    last[:, -1] = 1
    assert (recency(last)[:, 1] > 0.999).all()
    assert (recency(last.flip(1))[:, 0] < 0).all()
    assert (recency(torch.ones(9, 6, 4).double()) == 0).all()


def test_shares_sum_to_one_and_are_those_that_were_planted():
    shares = shares_of(FOUND, seed=0)
    parts = (shares.common, shares.supports, shares.queries, shares.interactions)
    assert sum(e.mean for e in parts) == pytest.approx(1)
    assert shares.interactions.low < shares.interactions.mean < shares.interactions.high
    place = torch.arange(6).double()[:, None].expand(9, 6, 4) - 2.5
    assert shares_of(place, seed=0).supports.mean == pytest.approx(1)


def test_linear_learners_are_additive_and_saturated_ones_are_not():
    learner = observed(Ridge(0.5, Linear()), batch=40)
    single = 2 * learner.influence[:, :4]
    exact = additivity_of_changes(single.sum(1), single, seed=0)
    assert exact.mean == pytest.approx(1)
    saturated = additivity_of_changes(single.sum(1).tanh(), single.tanh(), seed=0)
    assert saturated.high < 0.95
    biased = additivity_of_changes(single.sum(1) + drawn(40, 1, seed=5), single, seed=0)
    assert biased.mean == pytest.approx(1), "a bias of all queries is no lack of additivity"


def test_a_comparison_has_an_interval_and_a_chance():
    values = drawn(25, seed=6) + 1
    found = compared("planted", values, seed=0)
    assert found.above
    assert found.value.low > 0
    assert found.chance < 0.01
    assert compared("nothing", 0 * values, seed=0).chance == 1
