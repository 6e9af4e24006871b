"""Regression on states finds what was planted, and answers that follow a predictor are said to."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from tiny_language import save_tiny

from ridgeformer.analysis.in_context import View
from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.language import numbers
from ridgeformer.experiments.language.asked import drawn, joined, loaded, untrained
from ridgeformer.experiments.language.number_states import (
    NEIGHBOUR,
    RIDGE,
    SMOOTHING,
    NumberStates,
    best_ridge,
    choose_on_states,
    states_of,
)
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.language import LANGUAGE_TASKS, isolated_states, prompts
from ridgeformer.types import Refusal


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny"), seed=5))


def planted(seed, batch=12, k=24, q=6, d=8, at=1):
    """Targets that are linear in the states of one layer of three, beside a large constant; others are noise."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(3, batch, k + q, d, generator=generator, dtype=torch.float64)
    weights = torch.randn(batch, d, 1, generator=generator, dtype=torch.float64)
    values = (states[at] @ weights)[..., 0]
    mean = values[:, :k].mean(1, keepdim=True)
    common = 10 * torch.ones(d, dtype=torch.float64)
    return NumberStates(
        (0, 5, 9), states[:, :, :k] + common, states[:, :, k:] + common,
        values[:, :k] - mean, values[:, k:] - mean,
    )  # fmt: skip


@pytest.mark.parametrize("at", [0, 1, 2])
def test_ridge_on_states_finds_the_layer_in_which_targets_are_linear(at):
    first, second = planted(0, at=at), planted(1, at=at)
    choice = choose_on_states(first)
    assert choice.views[RIDGE].layer == first.layers[at]
    assert {view.layer for view in choice.views.values()} == {first.layers[at]}
    said = choice.predict(second)
    size = float(second.truth.square().mean().sqrt())
    errors = {name: float(second.error(values)) / size for name, values in said.items()}
    assert errors[RIDGE] < 1e-3
    assert errors[SMOOTHING] > 0.1
    assert errors[NEIGHBOUR] > errors[SMOOTHING]
    others = NumberStates((0,), second.supports[[at - 1]], second.queries[[at - 1]], second.targets, second.truth)  # fmt: skip
    wrong = choose_on_states(others).predict(others)
    assert (
        float(second.error(wrong[RIDGE])) / size > 0.5
    )  # noise knows nothing, even where it may choose


@pytest.mark.parametrize("view", [View(Linear(), 5, "prompt"), View(Gaussian(4.0), 5)], ids=str)
def test_errors_are_those_of_scikit_learn(view):
    states = planted(2)
    prompt = states.prompt(view)
    error, number, ridge = best_ridge(states, view)
    options, unit = {"kernel": "rbf", "gamma": 0.5 / 16}, 1.0
    if isinstance(view.kernel, Linear):
        options, unit = {"kernel": "linear"}, float(prompt.phi.square().sum(-1).mean())
    said = [
        KernelRidge(alpha=number * unit, **options).fit(x, y).predict(asked)[:, 0]
        for x, y, asked in zip(prompt.phi.numpy(), prompt.y.numpy(), prompt.phi_query.numpy(), strict=True)
    ]  # fmt: skip
    np.testing.assert_allclose(ridge.predict(prompt)[..., 0].numpy(), said, atol=1e-5)
    by_hand = np.sqrt(np.mean((np.array(said) - states.truth.numpy()) ** 2))
    assert error == pytest.approx(by_hand, rel=1e-4, abs=1e-6)


def test_states_that_are_all_equal_are_refused():
    flat = planted(0)
    same = NumberStates(flat.layers, 0 * flat.supports + 1, 0 * flat.queries + 1, flat.targets, flat.truth)  # fmt: skip
    with pytest.raises(Refusal, match="equal at every layer"):
        choose_on_states(same)


@pytest.mark.parametrize("name", ["linear", "linear-2d"])
@pytest.mark.parametrize("weights", [None, 0])
def test_states_are_those_of_each_input_alone(directory, name, weights):
    task = LANGUAGE_TASKS[name](supports=5, queries=3)
    problems = joined([drawn(task, 0, n) for n in range(3)])
    found = states_of(directory, weights, task, problems)
    model = loaded(directory) if weights is None else untrained(directory, weights)
    expected = isolated_states(model, prompts(model, task, problems), found.layers)
    both = torch.cat([found.supports, found.queries], dim=2)
    torch.testing.assert_close(both, expected.permute(2, 0, 1, 3), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        found.targets.sum(1), torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0
    )


def said_by(followed, seed=0):
    """The numbers of a language model whose answers are those of one reference, with a little noise."""
    task = LANGUAGE_TASKS["gp-draw"](supports=8)
    problems, before = (joined([drawn(task, s, n) for n in range(25)]) for s in (1, 0))
    said = numbers.said_on_inputs(task, problems, before)
    truth = problems.query_targets.double()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    out = Collector(25, 1)
    everyone = {numbers.MODEL: said[followed] + 0.5 * noise, **said}
    numbers.add_errors(everyone, truth, out)
    numbers.add_agreement(everyone, truth, out)
    return Finding("planted", 0, 25, numbers=out.numbers), everyone, truth


def test_a_model_that_answers_as_the_nearest_neighbour_follows_it_and_no_other():
    finding, said, truth = said_by("1-NN")
    for measure in ("errors", "answers given truth"):
        reached = {name: finding.get(measure, name) for name in said if name not in (numbers.MODEL, numbers.MEAN)}  # fmt: skip
        assert reached["1-NN"].low > 0.9
        assert all(
            reached["1-NN"].low > one.high for name, one in reached.items() if name != "1-NN"
        )
    assert finding.get("answers", numbers.MEAN).mean is None  # a constant follows nothing
    by_hand = [
        np.corrcoef(a, b)[0, 1]
        for a, b in zip((said[numbers.MODEL] - truth).numpy(), (said["GP"] - truth).numpy(), strict=True)
    ]  # fmt: skip
    assert finding.get("errors", "GP").mean == pytest.approx(np.mean(by_hand))


def test_a_model_near_the_mean_is_off_as_the_mean_is():
    """That is why the mean is the control, and why the truth is regressed out."""
    finding, _, _ = said_by("mean")
    assert finding.get("errors", numbers.MEAN).mean > 0.9
    for name in ("1-NN", "GP", "ridge on inputs"):
        low, high = finding.get("answers given truth", name).ends
        assert low < 0.1
        assert high < 0.4
        assert finding.get("errors", name).high < finding.get("errors", numbers.MEAN).low


def test_errors_over_the_models_are_paired():
    finding, said, truth = said_by("GP")
    errors = {name: float((values - truth).square().mean().sqrt()) for name, values in said.items()}
    for name, error in errors.items():
        assert finding.get("RMSE", name).mean == pytest.approx(error)
        ratio = finding.get("RMSE over the model's", name)
        assert ratio.mean == pytest.approx(error / errors[numbers.MODEL])
    assert finding.get("RMSE over the model's", numbers.MODEL).ends == (1.0, 1.0)
