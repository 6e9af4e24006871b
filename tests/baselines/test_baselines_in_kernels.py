"""Baselines that work in the task's own kernel: against loops, peers, and what theory says of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from baseline_cases import error, held_out
from sklearn.kernel_ridge import KernelRidge as PeerKernelRidge

from ridgeformer.baselines import (
    BASELINES,
    FixedFunctionalSteps,
    FixedSteps,
    KernelRidge,
    LearnedFunctionalSteps,
    PreconditionedRichardson,
    TunedFunctionalSteps,
)
from ridgeformer.baselines.base import training_prompts
from ridgeformer.baselines.functional_descent import PROMPTS, largest_eigenvalue
from ridgeformer.baselines.kernel_system import kernel_system_of
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.solvers import GradientDescent, Richardson, krr, solve
from ridgeformer.tasks import (
    GaussianProcess,
    LinearRegression,
    MixtureOfRegressions,
    PolynomialRegression,
)
from ridgeformer.tasks.gaussian_process import Covariance
from ridgeformer.tasks.learnable import KernelSystem
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

PROCESS = GaussianProcess(features=2, supports=12, queries=5)
SYSTEM = KernelSystem(Gaussian(0.5), 0.1)


def described(system):
    return system.kernel.to_dict(), system.ridge


def prompt_of(task=PROCESS, prompts=3):
    return held_out(task, prompts).prompt


def test_functional_descent_is_the_loop_in_the_space_of_functions():
    """f ← f + η Σ_i (y_i − f(x_i)) k(x_i, ·) − ηλf, written for one prompt with a function as values."""
    prompt, eta = prompt_of(), 0.15
    found = TunedFunctionalSteps(6, eta, SYSTEM).predict(prompt)
    for b in range(3):
        x, query, y = (t[b].numpy() for t in (prompt.phi, prompt.phi_query, prompt.y[..., 0]))
        points = np.concatenate([x, query])
        kernel = np.exp(-2 * ((points[:, None] - x[None]) ** 2).sum(-1))
        f = np.zeros(len(points))
        for _ in range(6):
            f = f + eta * (kernel @ (y - f[: len(x)]) - 0.1 * f)
        np.testing.assert_allclose(found[b, :, 0], f[len(x) :], atol=1e-12)


def test_steps_of_different_sizes_are_taken_in_turn():
    prompt = prompt_of()
    sizes = torch.tensor([0.3, 0.05, 0.11], dtype=torch.float64)
    found = LearnedFunctionalSteps(3, system=SYSTEM, sizes=sizes).predict(prompt)
    system = Gaussian(0.5)(prompt.phi, prompt.phi) + 0.1 * torch.eye(12)
    alpha = torch.zeros_like(prompt.y)
    for size in sizes:
        alpha = alpha + size * (prompt.y - system @ alpha)
    torch.testing.assert_close(found, Gaussian(0.5)(prompt.phi_query, prompt.phi) @ alpha)


def test_the_fixed_step_is_that_of_the_solver_on_the_interval():
    fixed = FixedFunctionalSteps(5).fit(PROCESS, seed=0)
    sample = training_prompts(PROCESS, PROMPTS, 0)
    top = largest_eigenvalue(sample.prompt, SYSTEM)
    prompt = prompt_of()
    peer = solve(
        GradientDescent(interval=(0.1, top)), prompt, steps=5, ridge=0.1, kernel=Gaussian(0.5)
    )
    torch.testing.assert_close(fixed.predict(prompt), peer.final)


def test_preconditioned_richardson_is_the_solver():
    baseline = PreconditionedRichardson(4).fit(PROCESS, seed=0)
    assert baseline.precondition == "row-sum"
    prompt = prompt_of()
    solver = Richardson("row-sum", (1 / baseline.eta, 1 / baseline.eta))
    peer = solve(solver, prompt, steps=4, ridge=0.1, kernel=Gaussian(0.5))
    torch.testing.assert_close(baseline.predict(prompt), peer.final)


def test_kernels_with_negative_values_are_preconditioned_by_their_diagonal():
    task = LinearRegression(features=3, supports=8, queries=4)
    baseline = PreconditionedRichardson(4).fit(task, seed=0)
    assert baseline.precondition == "jacobi"
    assert described(baseline.system) == described(KernelSystem(Linear(), task.ridge))


@pytest.mark.parametrize(
    ("task", "system"),
    [
        (GaussianProcess(), SYSTEM),
        (GaussianProcess(smoothness="matern32"), KernelSystem(Covariance("matern32", 0.5), 0.1)),
        (LinearRegression(features=4, noise=0.5), KernelSystem(Linear(), 1.0)),
    ],
)
def test_tasks_know_their_own_kernel(task, system):
    assert described(task.kernel_system()) == described(system)


@pytest.mark.parametrize(
    "task", [PROCESS, replace(PROCESS, smoothness="matern12"), LinearRegression(), PolynomialRegression()]
)  # fmt: skip
def test_ridge_regression_in_the_own_kernel_is_the_best_predictor(task):
    prompt = prompt_of(task)
    kernel, ridge = task.kernel_system()
    found = krr(prompt, ridge=ridge, kernel=kernel)
    torch.testing.assert_close(found, task.best(prompt), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "task",
    [
        GaussianProcess(lengthscales=(0.2, 1.0)),
        LinearRegression(noise=0.0),
        MixtureOfRegressions(),
    ],
)
def test_without_a_kernel_of_its_own_a_task_gets_a_fitted_one(task):
    assert task.kernel_system() is None
    kernel, ridge = kernel_system_of(task, seed=0)
    assert isinstance(kernel, Gaussian)
    assert ridge > 0


def test_many_steps_in_the_own_kernel_reach_the_best_predictor():
    sample = held_out(PROCESS, 64)
    best = PROCESS.best(sample.prompt)
    for few in (FixedFunctionalSteps(8), PreconditionedRichardson(8)):
        near = replace(few.fit(PROCESS, seed=0), steps=2000).predict(sample.prompt)
        torch.testing.assert_close(near, best, rtol=0, atol=1e-3)


def test_in_the_own_kernel_descent_learns_what_linear_descent_cannot():
    """Distances from the posterior mean, which have the expectations of the errors and less noise."""
    prompt = held_out(PROCESS, 2000).prompt
    best = PROCESS.best(prompt)
    methods = FixedSteps(8), FixedFunctionalSteps(8), LearnedFunctionalSteps(8, updates=150)
    linear, fixed, learned = (
        float((made.fit(PROCESS, seed=0).predict(prompt) - best).square().mean())
        for made in methods
    )
    assert fixed < 0.2 * linear
    assert learned < 0.6 * fixed


def test_no_fixed_step_is_better_than_the_tuned_one_on_training_prompts():
    sample = training_prompts(PROCESS, PROMPTS, 0)
    tuned, fixed = (
        error(made(3).fit(PROCESS, seed=0).predict(sample.prompt), sample).mean()
        for made in (TunedFunctionalSteps, FixedFunctionalSteps)
    )
    assert float(tuned) < float(fixed)


def test_the_tuned_step_is_the_best_common_one():
    sample = held_out(PROCESS, 2000)
    common = TunedFunctionalSteps(4).fit(PROCESS, seed=0)
    own = float(error(common.predict(sample.prompt), sample).mean())
    for factor in (0.6, 1.6):
        other = replace(common, eta=factor * common.eta)
        assert float(error(other.predict(sample.prompt), sample).mean()) > own


def test_kernel_ridge_is_sklearns_and_finds_the_width_of_the_task():
    task = GaussianProcess(lengthscales=(0.3,), noise_variance=0.05)
    baseline = KernelRidge().fit(task, seed=0)
    kernel, ridge = baseline.system
    assert 0.7 < kernel.lengthscale / 0.3 < 1.4
    prompt = prompt_of(task)
    found = baseline.predict(prompt)
    peer = PeerKernelRidge(alpha=ridge, kernel="rbf", gamma=0.5 / kernel.lengthscale**2)
    for b in range(3):
        x, query, y = (t[b].numpy() for t in (prompt.phi, prompt.phi_query, prompt.y[..., 0]))
        np.testing.assert_allclose(found[b, :, 0], peer.fit(x, y).predict(query), atol=1e-9)
    sample = held_out(task, 400)
    best = error(task.best(sample.prompt), sample).mean()
    assert float(error(baseline.predict(sample.prompt), sample).mean()) < 1.05 * float(best)


@pytest.mark.parametrize(
    "name", ["kernel-gd-fixed", "kernel-gd", "kernel-gd-learned", "kernel-richardson"]
)
def test_mistakes_are_refused(name):
    with pytest.raises(Refusal, match="step"):
        BASELINES[name](steps=0)
    with pytest.raises(Refusal, match="learned nothing yet"):
        BASELINES[name]().predict(prompt_of())
