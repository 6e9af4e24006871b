"""Drift: planted variances are found, the theorem bounds what it does, and a planted frozen subspace is found."""

import pytest
import torch
from planted_learners import drawn

from ridgeformer.analysis.in_context import (
    drift_by_layer,
    drift_of,
    effect_of_drift,
    find_frozen_subspace,
)
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


def states(n=40, m=12, frozen=3, moving=20, drift=2.0, seed=0):
    """Inputs differ in all directions, and move in all but the first ones; then everything is turned."""
    turn = torch.linalg.qr(drawn(frozen + moving, frozen + moving, seed=seed + 1)).Q
    own = drawn(n, 1, frozen + moving, seed=seed + 2)
    moved = drawn(n, m, frozen + moving, seed=seed + 3) * drift
    moved[..., :frozen] *= 0.05
    return (own + moved) @ turn.mT, turn[:, :frozen]


@pytest.mark.parametrize("drift", [0.0, 0.5, 2.0])
def test_the_planted_drift_is_found_without_bias(drift):
    """Means over few prompts owe much of their variance to drift, which is taken away."""
    values = drawn(300, 1, 5) + drift * drawn(300, 3, 5, seed=1)
    found = drift_of(values, seed=0)
    assert found.low - 1e-12 <= drift**2 <= found.high + 1e-12
    assert found.mean == pytest.approx(drift**2, rel=0.25)


def test_what_moves_all_inputs_alike_is_drift_and_leaves_their_differences():
    values = drawn(40, 1, 500) + 0.5 * drawn(40, 4, 500, seed=1) + 3.0 * drawn(1, 4, 500, seed=2)
    # The variance within is 9 + 1/4, and that between inputs is 1, however few the prompts are.
    assert drift_of(values, seed=0).mean == pytest.approx(9.25, rel=0.1)


def test_prompts_that_belong_together_are_resampled_together():
    prompt = Prompt(drawn(12, 8, 3), drawn(12, 8, 1, seed=1), drawn(12, 4, 3, seed=2))
    moved = Prompt(prompt.phi + 0.1 * drawn(12, 8, 3, seed=3), prompt.y, prompt.phi_query)
    alone, joined = (
        effect_of_drift(prompt, moved, ridge=0.5, kernel=Linear(), seed=0, together=n).change
        for n in (1, 4)
    )
    assert joined.mean == pytest.approx(alone.mean)
    assert (alone.prompts, joined.prompts) == (12, 3)


def test_layers_have_their_own_drift_and_a_constant_layer_has_none():
    layers = torch.stack([drawn(40, 1, 5) + d * drawn(40, 6, 5, seed=1) for d in (0.1, 1.0)])
    constant = torch.ones(1, 40, 6, 5).double() + 1e-12 * drawn(1, 40, 6, 5)
    found = drift_by_layer(torch.cat([layers, constant]), seed=0)
    assert found[0].high < found[1].low
    assert found[2].mean is None


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(2.0)], ids=["linear", "rbf"])
def test_what_drift_does_stays_below_the_bound(kernel):
    prompt = Prompt(drawn(12, 8, 3), drawn(12, 8, 1, seed=1), drawn(12, 4, 3, seed=2))
    sizes = []
    for size in (0.0, 0.01, 0.1):
        moved = Prompt(
            prompt.phi + size * drawn(12, 8, 3, seed=3),
            prompt.y,
            prompt.phi_query + size * drawn(12, 4, 3, seed=4),
        )
        effect = effect_of_drift(prompt, moved, ridge=0.5, kernel=kernel, seed=0)
        assert effect.change.mean <= effect.bound.mean
        sizes.append(effect.change.mean)
    assert sizes[0] == 0
    assert sizes[1] < 0.2 * sizes[2]
    other = Prompt(prompt.phi, -prompt.y, prompt.phi_query)
    with pytest.raises(Refusal, match="same targets"):
        effect_of_drift(prompt, other, ridge=0.5, kernel=kernel, seed=0)


def test_the_frozen_subspace_is_found_and_its_drift_is_small_for_other_inputs():
    values, planted = states()
    found = find_frozen_subspace(values, 3, seed=0)
    torch.testing.assert_close(found.basis.mT @ found.basis, torch.eye(3).double())
    cosines = torch.linalg.svdvals(planted.mT @ found.basis)
    assert float(cosines.min()) > 0.95
    assert found.drift.high < 0.2
    assert found.other_inputs.high < 0.2
    assert found.whole.low > 2
    assert found.random.low > 1
    assert found.principal.low > 1, "where states vary most, they move most"
    assert 0.05 < found.kept < 0.3


def test_it_is_found_among_many_dimensions_and_in_states_of_low_rank():
    """Directions in which the states that fit happened not to move are not taken for frozen ones."""
    values, _ = states(n=120, m=12, moving=147, drift=1.0)
    found = find_frozen_subspace(values, 2, seed=0)
    assert found.other_inputs.high < 0.1 * found.whole.low
    few, _ = states(n=40, m=12, moving=20, drift=1.0)
    wide = few @ torch.linalg.qr(drawn(400, 23, seed=9)).Q.mT + 0.02 * drawn(40, 12, 400, seed=8)
    found = find_frozen_subspace(wide, 2, seed=0)
    assert found.other_inputs.high < 0.1 * found.whole.low


def test_it_makes_predictions_the_same_in_another_prompt():
    values, _ = states(n=60, seed=5)
    found = find_frozen_subspace(values, 3, seed=0)
    items = torch.arange(30, 60).reshape(3, 10)
    y = drawn(3, 7, 1, seed=6)
    first, again = (
        Prompt(values[items[:, :7], place], y, values[items[:, 7:], place]) for place in (8, 9)
    )
    whole = effect_of_drift(first, again, ridge=1.0, kernel=Linear(), seed=0)
    frozen = effect_of_drift(first, again, ridge=1.0, kernel=Linear(found.basis.mT), seed=0)
    assert frozen.change.high < 0.3
    assert whole.change.low > 0.7
    assert frozen.change.mean <= frozen.bound.mean


def test_without_any_drift_all_is_frozen():
    values = drawn(20, 1, 6).expand(20, 8, 6)
    assert find_frozen_subspace(values, 2, seed=0).drift.mean == pytest.approx(0, abs=1e-12)


def test_too_few_states_are_refused():
    values, _ = states(n=8, m=8)
    with pytest.raises(Refusal, match="at most 3 directions"):
        find_frozen_subspace(values, 4, seed=0)
    with pytest.raises(Refusal, match="six inputs and eight prompts"):
        find_frozen_subspace(values[:5], 1, seed=0)
    with pytest.raises(Refusal, match="at least three inputs"):
        drift_of(values[:, :1], seed=0)
    with pytest.raises(Refusal, match="not finite"):
        drift_of(values / 0, seed=0)
