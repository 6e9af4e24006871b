"""The λ profile: a planted λ is found, with an interval that covers it, and similarity has none."""

from math import inf

import pytest
import torch
from planted_learners import LINEAR, observed

from ridgeformer.analysis.in_context import (
    RIDGES,
    Ridge,
    View,
    diagonal_unit,
    find_ridge_profile,
    neighbours,
)
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.types import Refusal


@pytest.mark.parametrize("ridge", [0.02, 0.3, 4.0])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(2.0)], ids=["linear", "rbf"])
def test_a_planted_ridge_is_found_in_the_units_of_the_kernel(ridge, kernel):
    """A λ that the instrument added twice, or forgot, would be found at another value."""
    view = View(kernel)
    found = observed(Ridge(ridge, kernel), view=view)
    profile = find_ridge_profile(found, view, seed=0)
    unit = diagonal_unit(view.prompt(found), kernel)
    assert profile.best.times(unit).value == pytest.approx(ridge, rel=0.01)
    assert profile.first_half * unit == pytest.approx(ridge, rel=0.01)
    assert profile.second_half.mean > 0.9999
    at = [e.mean for e in profile.agreement]
    assert max(at) == pytest.approx(1, abs=1e-4)
    assert abs(RIDGES[at.index(max(at))] * unit / ridge - 1) < 0.13


def test_the_unit_is_the_mean_of_the_kernels_diagonal():
    found = observed(Ridge(0.3, Linear()))
    expected = float(found.supports.square().sum(-1).mean())
    assert diagonal_unit(LINEAR.prompt(found), Linear()) == pytest.approx(expected)
    assert diagonal_unit(View(Linear(), unit=True).prompt(found), Linear()) == pytest.approx(1)


def test_similarity_has_an_infinite_ridge():
    profile = find_ridge_profile(observed(Ridge(inf, Linear())), LINEAR, seed=0)
    assert profile.best.value == profile.best.high == inf
    assert not profile.best.finite
    backwards = observed(Ridge(0.1, Linear()))
    wrong = find_ridge_profile(
        type(backwards)(**{**vars(backwards), "influence": -backwards.influence}), LINEAR, seed=0
    )
    assert wrong.best.value == inf, "influence of the opposite sign is not explained"


def test_intervals_cover_a_planted_ridge_as_often_as_they_say():
    unit = diagonal_unit(LINEAR.prompt(observed(Ridge(1.0, Linear()), batch=400)), Linear())
    covered = 0
    for seed in range(40):
        found = observed(Ridge(0.3 * unit, Linear()), seed=seed, noise=1.5, batch=20)
        best = find_ridge_profile(found, LINEAR, unit=unit, seed=0).best
        covered += best.low <= 0.3 <= best.high
    assert covered >= 34, "95 % of 40, less three standard errors"


def test_what_is_no_ridge_regression_agrees_less_with_each():
    profile = find_ridge_profile(observed(neighbours(2)), LINEAR, seed=0)
    assert max(e.high for e in profile.agreement) < 0.9


@pytest.mark.parametrize("grid", [(0.1, 1.0, inf), (0.1, 1.0, 10.0, 100.0), (0.1, 1.0, 2.0, inf), (0.0, 1.0, 2.0, inf)])  # fmt: skip
def test_grids_without_equal_ratios_or_without_infinity_are_refused(grid):
    with pytest.raises(Refusal, match="grid of λ"):
        find_ridge_profile(observed(Ridge(0.1, Linear())), LINEAR, ridges=grid, seed=0)


def test_features_that_are_all_zero_are_refused():
    found = observed(Ridge(0.1, Linear()))
    nothing = type(found)(**{**vars(found), "supports": torch.zeros_like(found.supports)})
    with pytest.raises(Refusal, match="features of the supports are 0"):
        find_ridge_profile(nothing, LINEAR, seed=0)
