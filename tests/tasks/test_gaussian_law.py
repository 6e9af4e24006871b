"""Targets drawn anew have the task's own law, and tasks without such a law say so."""

import pytest
import torch

from ridgeformer.solvers import krr
from ridgeformer.tasks import (
    GaussianProcess,
    LinearRegression,
    MixtureOfRegressions,
    PolynomialRegression,
)
from ridgeformer.types import Refusal

TASKS = {
    "linear": LinearRegression(features=3, supports=5, queries=2),
    "polynomial": PolynomialRegression(supports=5, queries=2),
    "gp": GaussianProcess(supports=5, queries=2),
    "gp, rough": GaussianProcess(supports=5, queries=2, smoothness="matern32"),
}


@pytest.mark.parametrize("name", TASKS)
def test_ridge_regression_with_the_law_is_the_best_predictor(name):
    task = TASKS[name]
    prompt, law = task.draw(20, seed=1), task.law()
    found = krr(prompt, ridge=law.ridge, kernel=law.kernel)
    torch.testing.assert_close(found, task.best(prompt))


@pytest.mark.parametrize("name", TASKS)
def test_new_targets_are_independent_and_have_the_same_covariance(name):
    """With the law's own covariance Σ, yᵀΣ⁻¹y has mean k and variance 2k for old and new targets alike."""
    task = TASKS[name]
    prompt, law = task.draw(4000, seed=2), task.law()
    again = task.relabel(prompt, torch.Generator().manual_seed(3))
    assert again.phi is prompt.phi
    eye = torch.eye(5, dtype=torch.float64)
    system = law.variance * (law.kernel(prompt.phi, prompt.phi) + law.ridge * eye)
    for one, other, mean in (
        (prompt.y, prompt.y, 5.0),
        (again.y, again.y, 5.0),
        (prompt.y, again.y, 0.0),
    ):
        form = (one * torch.linalg.solve(system, other)).sum((1, 2))
        assert abs(float(form.mean()) - mean) < 4 * (10 / 4000) ** 0.5


def test_tasks_without_one_law_are_refused():
    generator = torch.Generator()
    for task in (MixtureOfRegressions(), GaussianProcess(noise_variances=(0.1, 0.2))):
        with pytest.raises(Refusal, match="one centred Gaussian law"):
            task.relabel(task.draw(2, seed=0), generator)
