"""The effective ridge: a planted λ is found, early stopping is a larger one, and noise is followed or not."""

import pytest
import torch
from subjects import SMALL, TASK, Predictor, compiled_subject, iterates

from ridgeformer.analysis import find_effective_ridge, ridge_by_noise
from ridgeformer.analysis.effective_ridge import ridge_of
from ridgeformer.models import subject, zoo
from ridgeformer.solvers import krr
from ridgeformer.tasks import GaussianProcess
from ridgeformer.types import Refusal

NOISY = GaussianProcess(queries=8, noise_variances=(0.02, 0.1, 0.5))


def test_a_planted_ridge_is_found():
    planted = (0.1, TASK.ridge, 5.0)

    def read(prompt):
        return torch.stack([krr(prompt, ridge=ridge) for ridge in planted])

    found = ridge_of(read, TASK.law(), TASK.draw(60, seed=0), seed=0)
    assert [e.mean for e in found.found] == pytest.approx(planted, rel=2e-3)
    assert max(e.mean for e in found.left) < 1e-4


def test_what_is_no_ridge_regression_has_no_ridge_or_much_left():
    def read(prompt):
        best = TASK.best(prompt)
        return torch.stack([0 * best, best.flip(0)])

    found = ridge_of(read, TASK.law(), TASK.draw(60, seed=0), seed=0)
    assert found.found[0].mean is None, "nothing is nearest to an infinite λ"
    assert found.left[1].low > 0.7


def test_stopping_early_is_a_larger_ridge():
    found = ridge_of(iterates("gd", steps=12), TASK.law(), TASK.draw(100, seed=0), seed=0).found
    values = [e.mean for e in found]
    assert values == sorted(values, reverse=True)
    assert values[0] > 20 * TASK.ridge
    assert values[-1] > 2 * TASK.ridge


def test_compiled_conjugate_gradients_end_at_their_own_ridge():
    prompt = SMALL.draw(100, seed=0)
    found = find_effective_ridge(compiled_subject("cg", 5), SMALL.law(), prompt, seed=0)
    assert found.found[-1].mean == pytest.approx(SMALL.ridge, rel=5e-3)


@pytest.mark.parametrize("name", ["linear-attention", "linear"])
def test_shipped_models_end_near_the_ridge_of_their_task(name):
    prompt = TASK.draw(160, seed=0)
    found = find_effective_ridge(subject(zoo.load(name)), TASK.law(), prompt, seed=0)
    assert found.found[0].low > 10 * TASK.ridge
    assert found.found[-1].mean == pytest.approx(TASK.ridge, rel=0.2)
    assert found.found[-1].low < found.found[-1].mean < found.found[-1].high
    assert found.left[-1].mean < 2e-3


def test_a_predictor_that_infers_the_noise_follows_it_and_a_fixed_ridge_does_not():
    follows = ridge_by_noise(Predictor(NOISY.best), NOISY, prompts=60, seed=0)
    assert follows.follows == follows.best_follows
    assert 0.3 < follows.follows.low < follows.follows.high < 1.1
    one = GaussianProcess(queries=8, noise_variance=0.1)
    fixed = ridge_by_noise(Predictor(one.best), NOISY, prompts=60, seed=0)
    assert fixed.follows.mean == pytest.approx(0, abs=1e-2)
    assert [e.mean for e in fixed.found] == pytest.approx([0.1] * 3, rel=1e-2)


def test_one_level_of_noise_is_refused():
    with pytest.raises(Refusal, match="several noise_variances"):
        ridge_by_noise(Predictor(NOISY.best), GaussianProcess(), seed=0)
