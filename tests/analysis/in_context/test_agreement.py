"""Agreement of outputs: a bias of labels has no part in it, and being right is told from being alike."""

import numpy as np
import pytest
import torch
from planted_learners import LINEAR, drawn, observed

from ridgeformer.analysis.in_context import Ridge, View, agreement_by_layer, find_agreement
from ridgeformer.kernels import Linear

TRUTH = torch.tensor([1.0, -1.0] * 6).double().expand(80, 12)


def test_within_prompts_is_the_mean_correlation_and_ignores_biases():
    a, b = drawn(20, 12), drawn(20, 12, seed=1)
    expected = np.mean([np.corrcoef(x, y)[0, 1] for x, y in zip(a.numpy(), b.numpy(), strict=True)])
    found = find_agreement(a, b, seed=0)
    assert found.within.mean == pytest.approx(expected)
    assert found.within.low < expected < found.within.high
    biased = find_agreement(3 * a + 50 * drawn(20, 1, seed=2), b, seed=0)
    assert biased.within.mean == pytest.approx(expected)
    assert found.given_truth.mean is None


def test_predictions_that_are_constant_in_a_prompt_have_no_correlation():
    a = drawn(20, 12)
    constant = 0.1 * torch.ones(20, 12).double()
    assert find_agreement(a, constant, seed=0).within.prompts == 0
    constant[0] = drawn(12, seed=3)
    assert find_agreement(a, constant, seed=0).within.prompts == 1


def test_being_right_is_not_being_alike():
    """The output is the truth and what it has of its own; one predictor knows the truth, another its own part, too."""
    own = drawn(80, 12, seed=4)
    outputs = TRUTH + 1.5 * own
    knows = find_agreement(outputs, TRUTH + drawn(80, 12, seed=5), TRUTH, seed=0)
    alike = find_agreement(outputs, TRUTH + own, TRUTH, seed=0)
    assert knows.within.low > 0.2
    assert knows.given_truth.low < 0 < knows.given_truth.high
    assert knows.sides.high < 0.5
    assert alike.given_truth.mean == pytest.approx(1)
    assert alike.sides.low > knows.sides.high
    # Within one class of one prompt there is no other truth to regress out.
    rows = [slice(0, None, 2), slice(1, None, 2)]
    a, b = outputs[0].clone(), drawn(12, seed=6)
    for part in rows:
        a[part] -= a[part].mean()
        b[part] -= b[part].mean()
    one = find_agreement(outputs[:1], drawn(12, seed=6)[None], TRUTH[:1], seed=0)
    assert one.given_truth.mean == pytest.approx(np.corrcoef(a, b)[0, 1])


def test_sides_count_the_queries_that_are_wrong():
    outputs, predictions = TRUTH.clone(), TRUTH.clone()
    outputs[:, :4] *= -1  # two of each class are wrong, so that the mean stays 0
    predictions[:, :2] *= -1
    found = find_agreement(outputs + 9, predictions - 9, TRUTH, seed=0)
    assert found.sides.mean == pytest.approx(0.5)
    assert find_agreement(TRUTH, predictions, TRUTH, seed=0).sides.mean is None


def test_errors_of_numbers_are_compared():
    truth, slip = drawn(60, 10), drawn(60, 10, seed=1)
    outputs = truth + slip
    alike = find_agreement(outputs, truth + 0.5 * slip, truth, seed=0)
    right = find_agreement(outputs, truth + 0.5 * drawn(60, 10, seed=2), truth, seed=0)
    assert alike.errors.mean == pytest.approx(1)
    assert right.errors.low < 0 < right.errors.high
    assert alike.sides.mean is None


def test_the_layer_that_was_planted_agrees_best():
    view = View(Linear(), layer=2)
    found = observed(Ridge(0.5, Linear()), view=view, layers=4)
    views = [View(Linear(), layer) for layer in range(4)]
    by_layer = agreement_by_layer(found, views, lambda v: Ridge(0.5, v.kernel), seed=0)
    assert list(by_layer) == [f"linear, layer {n}" for n in range(4)]
    assert by_layer["linear, layer 2"].within.mean == pytest.approx(1)
    assert all(by_layer[f"linear, layer {n}"].within.high < 0.5 for n in (0, 1, 3))
    assert LINEAR.label == "linear, layer 0"
