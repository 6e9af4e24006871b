"""Bootstrap estimates: paired, and defined only where every resample is."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr, ttest_1samp

from ridgeformer.statistics import (
    UNDEFINED,
    chance,
    chance_by_signs,
    estimate,
    estimate_median,
    estimate_of,
    estimates_of,
    holm,
    nested_estimates_of,
    r_squared,
    rank_correlation,
    slope,
)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_same_seed_takes_the_same_resamples():
    """The interval of a sum is exact only if both terms are resampled together."""
    values = draw(40)
    first, again, other = estimate(values, 3), estimate(values, 3), estimate(values, 4)
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)
    shifted = estimate(values + 5, 3)
    assert shifted.low - first.low == pytest.approx(5, abs=1e-12)
    assert shifted.high - first.high == pytest.approx(5, abs=1e-12)
    pair = torch.stack([values, 5 - values], 1)
    total = estimate_of(pair, lambda means: means.sum(-1), 3)
    assert total.low == pytest.approx(5, abs=1e-12)
    assert total.high == pytest.approx(5, abs=1e-12)


def test_prompts_without_a_value_do_not_count():
    values = draw(30)
    some = torch.cat([values, torch.full((5,), torch.nan, dtype=torch.float64)])
    assert estimate(some, 0) == estimate(values, 0)
    assert estimate(some, 0).prompts == 30


def test_one_prompt_has_no_width_and_infinity_no_estimate():
    one = estimate(torch.tensor([2.5]), 0)
    assert (one.low, one.mean, one.high, one.prompts) == (2.5, 2.5, 2.5, 1)
    equal = estimate(torch.full((7,), 0.1), 0)
    assert equal.low <= equal.mean <= equal.high
    assert estimate(torch.tensor([1.0, torch.inf, 2.0]), 0).mean is None
    rarely = draw(200).clamp(max=2.0)
    assert estimate_of(rarely, lambda m: (m - rarely.mean() + 0.01).log(), 0).mean is None


def test_several_functions_of_the_same_means_are_those_one_by_one():
    values = draw(50, 3)
    both = estimates_of(values, lambda m: torch.stack([m.sum(-1), (m[:, 0] - 9).log()], 1), 2)
    assert both == (estimate_of(values, lambda m: m.sum(-1), 2), UNDEFINED)
    assert estimates_of(values[:0], lambda m: m, 2) == (UNDEFINED,) * 3


def test_of_has_one_number_for_each_resample():
    x, y = torch.arange(5.0).double(), draw(60, 5)
    assert estimate_of(y, lambda m: slope(x, m), 0).prompts == 60
    line = torch.stack([2 * x + 1, torch.ones_like(x)])
    assert slope(x, line)[0].item() == pytest.approx(2)
    assert r_squared(x, line)[0].item() == pytest.approx(1)
    assert r_squared(x, line)[1].isnan()  # a constant has no variance to explain


def test_rank_correlation_against_scipy():
    g = torch.Generator().manual_seed(0)
    a = torch.randn(20, 15, generator=g, dtype=torch.float64)
    b = (a + torch.randn(20, 15, generator=g, dtype=torch.float64)).round()  # with ties
    expected = [spearmanr(x, y).statistic for x, y in zip(a.numpy(), b.numpy(), strict=True)]
    np.testing.assert_allclose(rank_correlation(a, b).numpy(), expected, atol=1e-12)
    assert rank_correlation(a, torch.ones_like(a)).isnan().all()


def test_intervals_cover_the_mean_as_often_as_they_say():
    g = torch.Generator().manual_seed(0)
    found = [estimate(torch.randn(60, generator=g, dtype=torch.float64), 0) for _ in range(400)]
    covered = np.mean([f.low <= 0 <= f.high for f in found])
    # 95 % up to three standard errors of 400 trials and the slight optimism of percentiles at n = 60.
    assert 0.91 < covered < 0.98
    empty = estimate(torch.full((3,), torch.nan, dtype=torch.float64), 0)
    assert (empty.mean, empty.prompts) == (None, 0)


def test_fits_against_numpy():
    g = torch.Generator().manual_seed(0)
    x, y = torch.rand(9, generator=g).double(), torch.rand(4, 9, generator=g).double()
    expected = [np.polyfit(x.numpy(), row.numpy(), 1)[0] for row in y]
    np.testing.assert_allclose(slope(x, y).numpy(), expected, rtol=1e-10)
    correlation = [np.corrcoef(x.numpy(), row.numpy())[0, 1] ** 2 for row in y]
    np.testing.assert_allclose(r_squared(x, y).numpy(), correlation, rtol=1e-8)


def test_intervals_of_fits_are_those_of_means_where_the_fit_is_a_mean():
    values = torch.randn(30, 1, generator=torch.Generator().manual_seed(0)).double()
    found, mean = estimate_of(values, lambda m: m[:, 0], 0), estimate(values[:, 0], 0)
    np.testing.assert_allclose(
        [found.mean, found.low, found.high], [mean.mean, mean.low, mean.high], rtol=1e-9
    )
    assert estimate_of(values, lambda m: m[:, 0] * torch.nan, 0).mean is None


def test_a_median_is_covered_by_its_interval_as_often_as_it_says():
    """The 95 % interval of the median of exponential numbers, whose median is ln 2, on 200 samples."""
    samples = torch.rand(200, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = [estimate_median(-row.log(), 0) for row in samples]
    covered = sum(e.low <= np.log(2) <= e.high for e in found)
    assert 0.9 * 200 <= covered < 200
    assert all(e.low < e.mean < e.high and e.prompts == 60 for e in found)


def test_a_median_ignores_outliers_and_prompts_without_a_value():
    values = torch.tensor([1.0, 3.0, torch.nan, 2.0, 1e9, 0.5], dtype=torch.float64)
    assert estimate_median(values, 0).mean == 2.0
    assert estimate_median(values, 0).prompts == 5
    assert estimate_median(values[:1], 0).low == 1.0
    assert estimate_median(values[2:3], 0) == UNDEFINED


def test_nested_resamples_draw_prompts_and_queries_within_them():
    """With equal queries only prompts vary, and with equal prompts only queries do."""
    by_prompt = draw(30, 1).expand(30, 8)[..., None]
    (found,) = nested_estimates_of(by_prompt, lambda m: m, 0)
    plain = estimate(by_prompt[:, 0, 0], 0)
    assert found.mean == pytest.approx(plain.mean)
    assert found.high - found.low == pytest.approx(plain.high - plain.low, rel=0.1)
    by_query = draw(1, 8, seed=1).expand(30, 8)[..., None]
    (within,) = nested_estimates_of(by_query, lambda m: m, 0)
    expected = 2 * 1.96 * float(by_query[0].std(correction=0)) / (30 * 8) ** 0.5
    assert within.high - within.low == pytest.approx(expected, rel=0.1)
    rare = torch.zeros(30, 8, 1, dtype=torch.float64)
    assert nested_estimates_of(rare, lambda m: m.log(), 0) == (UNDEFINED,)
    assert nested_estimates_of(rare[:0], lambda m: m, 0) == (UNDEFINED,)


def test_chance_is_that_of_students_t():
    values = draw(25) + 0.3
    assert chance(values) == pytest.approx(ttest_1samp(values.numpy(), 0).pvalue)
    missing = torch.cat([values, torch.tensor([torch.nan], dtype=torch.float64)])
    assert chance(missing) == chance(values)
    assert chance(torch.zeros(9)) == 1
    assert chance(torch.ones(2)) == 1
    assert chance(torch.ones(9)) == 0


def test_changes_of_signs_count_those_with_as_large_a_sum():
    values = torch.tensor([3.0, -1.0, 0.5, 2.0, 40.0, -0.2, 1.0, 0.7, -2.5, 0.0]).double()
    signs = torch.tensor(list(product([-1.0, 1.0], repeat=10))).double()
    exact = float((signs @ values >= values.sum() - 1e-9).double().mean())
    found = chance_by_signs(values, 0)
    assert found == pytest.approx(exact, abs=3 * (exact / 4000) ** 0.5)
    assert found == chance_by_signs(values, 0)
    with_none = torch.cat([values, torch.tensor([torch.nan]).double()])
    assert chance_by_signs(with_none, 0) == found
    assert chance_by_signs(0 * values, 0) == 1
    assert chance_by_signs(values.new_full((3,), torch.nan), 0) == 1


def test_changes_of_signs_keep_their_level_and_their_power_for_values_of_all_sizes():
    """Student's t finds nothing in values that are all above 0 if one is much larger."""
    rng = np.random.default_rng(0)
    sizes = torch.from_numpy(np.exp(3 * rng.normal(size=(1000, 20))))
    noise = torch.from_numpy(rng.normal(size=(1000, 20)))
    level = np.mean([chance_by_signs(row, 1) <= 0.05 for row in sizes * noise])
    assert 0.03 < level < 0.07
    above = [chance_by_signs(row, 1) <= 0.05 for row in (sizes * (1 + noise / 5))[:100]]
    students = [chance(row) <= 0.05 for row in (sizes * (1 + noise / 5))[:100]]
    assert np.mean(above) == 1
    assert np.mean(students) < 0.7


def test_holms_correction_is_closed_testing_with_bonferroni():
    """A hypothesis is rejected if every set that has it is, a set being rejected by its least p times its size."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        chances = (rng.uniform(size=size) ** 3).tolist()
        sets = [s for n in range(1, size + 1) for s in combinations(range(size), n)]
        closed = [
            max(min(1.0, len(s) * min(chances[i] for i in s)) for s in sets if one in s)
            for one in range(size)
        ]
        assert holm(chances) == pytest.approx(closed)
    assert holm([]) == ()
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
