"""Baselines against peers and closed forms; none of them beats the best predictor of a task."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from baseline_cases import LEARNED, assert_mean, error, fitted, held_out
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.neighbors import KNeighborsRegressor

from ridgeformer.baselines import (
    BASELINES,
    Adapter,
    FixedSteps,
    GaussianProcessPosterior,
    Lasso,
    LearnedSteps,
    LeastSquares,
    NearestNeighbours,
    Ridge,
    Smoother,
)
from ridgeformer.baselines.base import training_generator
from ridgeformer.baselines.gaussian_process import Scales
from ridgeformer.kernels import Gaussian
from ridgeformer.solvers import NadarayaWatson, solve
from ridgeformer.statistics import estimate
from ridgeformer.tasks import (
    LEARNABLE,
    GaussianProcess,
    KernelDraw,
    LearnableTask,
    LinearRegression,
    Prompt,
)
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

every = pytest.mark.parametrize("name", BASELINES)
QUICK = ("linear", "gp")
everywhere = pytest.mark.parametrize(
    "task", [t if t in QUICK else pytest.param(t, marks=pytest.mark.slow) for t in LEARNABLE]
)


@every
@everywhere
def test_shapes_precision_and_each_prompt_by_itself(name, task):
    prompt = held_out(LEARNABLE[task](), 3).prompt
    baseline = fitted(name, task)
    found = baseline.predict(prompt)
    assert found.shape == (3, prompt.phi_query.shape[1], 1)
    alone = torch.cat([baseline.predict(prompt[b]) for b in range(3)])
    torch.testing.assert_close(found, alone, rtol=1e-9, atol=1e-11)
    rough = baseline.predict(prompt.to(torch.float32))
    assert found.dtype == rough.dtype == torch.float64
    assert baseline.label


@every
@pytest.mark.parametrize(
    "task", [t if t == "linear" else pytest.param(t, marks=pytest.mark.slow) for t in LEARNABLE]
)
def test_each_output_by_itself(name, task):
    prompt = held_out(LEARNABLE[task](), 3).prompt
    several = Prompt(prompt.phi, torch.cat([prompt.y, -2 * prompt.y.flip(1)], 2), prompt.phi_query)
    other = Prompt(prompt.phi, -2 * prompt.y.flip(1), prompt.phi_query)
    baseline = fitted(name, task)
    expected = torch.cat([baseline.predict(p) for p in (prompt, other)], 2)
    torch.testing.assert_close(baseline.predict(several), expected, rtol=1e-9, atol=1e-9)


@every
def test_the_same_seed_learns_the_same(name):
    task = LinearRegression(features=3, supports=8, queries=4)
    made = BASELINES[name](**({"updates": 3} if BASELINES[name] in LEARNED else {}))
    prompt = held_out(task, 4).prompt
    first, again, other = (made.fit(task, seed).predict(prompt) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    if BASELINES[name] in LEARNED:
        assert not torch.equal(first, other)


def test_training_prompts_are_no_evaluation_prompts():
    """torch reads 32 bits of a seed: an offset of 2³² draws the same prompts again."""
    draws = {float(torch.rand((), generator=training_generator(s))) for s in range(1000)}
    evaluation = {
        float(torch.rand((), generator=torch.Generator().manual_seed(s))) for s in range(1000)
    }
    assert len(draws) == 1000
    assert not draws & evaluation


@dataclass(frozen=True)
class Blind(LinearRegression):
    """Its "best" predictor is not the best."""

    def best(self, prompt):
        return 0.9 * super().best(prompt)


def beaten(task, found, sample):
    """The interval of error − best error over the same prompts; below 0 if the best is beaten."""
    difference = error(found, sample) - error(task.best(sample.prompt), sample)
    return estimate(difference, seed=0).high < -1e-12


@every
@everywhere
def test_none_beats_the_best_predictor(name, task):
    sample = held_out(LEARNABLE[task](), 256)
    assert not beaten(LEARNABLE[task](), fitted(name, task).predict(sample.prompt), sample)


def test_a_best_predictor_that_is_not_best_is_beaten():
    sample = held_out(Blind(), 256)
    assert beaten(Blind(), fitted("ridge", "linear").predict(sample.prompt), sample)
    assert beaten(Blind(), fitted("least-squares", "linear").predict(sample.prompt), sample)


def test_where_the_task_is_theirs_they_are_the_best_predictor():
    for name, task in (("ridge", "linear"), ("gp", "gp")):
        sample = held_out(LEARNABLE[task](), 8)
        expected = LEARNABLE[task]().best(sample.prompt)
        torch.testing.assert_close(fitted(name, task).predict(sample.prompt), expected)


@pytest.mark.parametrize("supports", [5, 8, 20])
def test_least_squares_is_numpys_with_least_norm(supports):
    prompt = KernelDraw(features=8, supports=supports, outputs=2, copies=2).draw(3, seed=0)
    found = LeastSquares().predict(prompt)
    for b in range(3):
        w = np.linalg.lstsq(prompt.phi[b].numpy(), prompt.y[b].numpy())[0]
        np.testing.assert_allclose(found[b], prompt.phi_query[b].numpy() @ w, atol=1e-10)


def test_least_squares_has_its_risk():
    """σ²(1 + d/(k − d − 1)) for isotropic Gaussian features."""
    task = LinearRegression(features=4, supports=16, condition=1.0, noise=0.5)
    sample = held_out(task, 20_000)
    assert_mean(error(LeastSquares().predict(sample.prompt), sample), 0.25 * (1 + 4 / 11))


def test_ridge_is_scikit_learns():
    prompt = KernelDraw(features=5, supports=9, outputs=2).draw(3, seed=0)
    found = Ridge(0.7).predict(prompt)
    for b in range(3):
        peer = PeerRidge(alpha=0.7, fit_intercept=False).fit(prompt.phi[b], prompt.y[b])
        np.testing.assert_allclose(found[b], peer.predict(prompt.phi_query[b]), atol=1e-10)


def test_a_tuned_ridge_finds_the_ridge_of_the_task():
    @dataclass(frozen=True)
    class Silent(LinearRegression):
        ridge = None  # the task does not tell

    task = Silent(noise=1.0)
    found = Ridge().fit(task, seed=0).ridge
    assert 0.3 * 8 < found < 3 * 8  # noise²·d; the minimum is flat
    sample = held_out(LinearRegression(noise=1.0), 256)
    best = LinearRegression(noise=1.0).best(sample.prompt)
    lost = error(Ridge(found).predict(sample.prompt), sample).mean() - error(best, sample).mean()
    assert lost < 0.01 * error(best, sample).mean()


PEER_KERNELS = {
    "rbf": RBF(0.6),
    "matern12": Matern(0.6, nu=0.5),
    "matern32": Matern(0.6, nu=1.5),
    "matern52": Matern(0.6, nu=2.5),
}


@pytest.mark.parametrize("smoothness", PEER_KERNELS)
def test_the_posterior_and_its_likelihood_are_scikit_learns(smoothness):
    prompt = KernelDraw(features=2, supports=9).draw(3, seed=0)
    baseline = GaussianProcessPosterior(smoothness, Scales(0.6, 1.7, 0.2))
    found = baseline.predict(prompt)
    one, noise = torch.tensor([1.7, 0.2], dtype=torch.float64)
    between = torch.cdist(prompt.phi, prompt.phi) / 0.6
    likelihood = baseline.log_likelihood(prompt.y, between, one, noise)
    kernel = ConstantKernel(1.7) * PEER_KERNELS[smoothness]
    for b in range(3):
        x, y, query = (a[b].numpy() for a in (prompt.phi, prompt.y, prompt.phi_query))
        peer = GaussianProcessRegressor(kernel, alpha=0.2, optimizer=None).fit(x, y[:, 0])
        np.testing.assert_allclose(found[b, :, 0], peer.predict(query), atol=1e-9)
        np.testing.assert_allclose(likelihood[b], peer.log_marginal_likelihood(), rtol=1e-10)


def test_the_posterior_mean_is_kernel_ridge():
    prompt = KernelDraw(features=2, supports=9, outputs=2).draw(1, seed=0)
    found = GaussianProcessPosterior("rbf", Scales(0.5, 2.0, 0.6)).predict(prompt)
    peer = KernelRidge(alpha=0.3, kernel="rbf", gamma=2.0).fit(prompt.phi[0], prompt.y[0])
    np.testing.assert_allclose(found[0], peer.predict(prompt.phi_query[0]), atol=1e-10)


def test_most_likely_scales_are_scikit_learns():
    prompt = held_out(GaussianProcess(features=1, supports=40), 1).prompt
    found = GaussianProcessPosterior().most_likely(prompt).scales
    kernel = ConstantKernel(1.0) * RBF(0.5) + WhiteKernel(0.1)
    peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0)
    product = peer.fit(prompt.phi[0], prompt.y[0, :, 0]).kernel_
    expected = [product.k1.k2.length_scale, product.k1.k1.constant_value, product.k2.noise_level]
    ours = [found.lengthscale, found.variance, found.noise_variance]
    np.testing.assert_allclose(ours, expected, rtol=0.01)


def test_most_likely_scales_of_many_prompts_are_the_true_ones():
    task = GaussianProcess(lengthscales=(0.5, 0.5))  # two of them, so that they are not told
    found = GaussianProcessPosterior().fit(task, seed=0).scales
    ours = [found.lengthscale, found.variance, found.noise_variance]
    np.testing.assert_allclose(ours, [0.5, 1.0, 0.1], rtol=0.1)


@dataclass(frozen=True)
class Wrapped(LinearRegression):
    """A task of another class that says that its functions come from a Gaussian process."""

    def gaussian_process(self):
        return GaussianProcess(smoothness="matern32", lengthscales=(0.7,), noise_variances=(0.2,))


def test_a_task_says_itself_which_process_it_draws_from():
    fit = GaussianProcessPosterior().fit(Wrapped(), seed=0)
    assert (fit.smoothness, fit.scales) == ("matern32", Scales(0.7, 1.0, 0.2))
    several = GaussianProcess(supports=8, noise_variances=(0.3, 0.6))  # not one, so it is estimated
    assert 0.3 < GaussianProcessPosterior().fit(several, seed=0).scales.noise_variance < 0.6


def test_gpytorch_agrees_on_many_prompts_at_once():
    gpytorch = pytest.importorskip("gpytorch", reason="GPyTorch is in the extra [gp]")
    prompt = KernelDraw(features=2, supports=9).draw(4, seed=1)

    class Peer(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            batch = torch.Size([4])
            self.mean_module = gpytorch.means.ZeroMean(batch_shape=batch)
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.MaternKernel(nu=1.5, batch_shape=batch), batch_shape=batch
            )

        def forward(self, x):
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    y = prompt.y[..., 0]
    likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=torch.Size([4]))
    peer = Peer(prompt.phi, y, likelihood).double()
    peer.covar_module.outputscale = torch.full((4,), 1.7).double()
    peer.covar_module.base_kernel.lengthscale = torch.full((4, 1, 1), 0.6).double()
    peer.likelihood.noise = torch.full((4, 1), 0.2).double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(peer.likelihood, peer)
    expected = 9 * evidence(peer(prompt.phi), y)  # it reports the mean over supports
    peer.eval()
    mean = peer(prompt.phi_query).mean.detach()

    baseline = GaussianProcessPosterior("matern32", Scales(0.6, 1.7, 0.2))
    one, noise = torch.tensor([1.7, 0.2], dtype=torch.float64)
    between = torch.cdist(prompt.phi, prompt.phi) / 0.6
    likelihood = baseline.log_likelihood(prompt.y, between, one, noise)
    torch.testing.assert_close(likelihood, expected.detach(), rtol=1e-6, atol=0)
    torch.testing.assert_close(baseline.predict(prompt)[..., 0], mean, rtol=0, atol=1e-6)


def with_unit_queries(prompt):
    """Queries at the unit vectors: predictions are weights."""
    eye = torch.eye(prompt.features, dtype=torch.float64)
    return Prompt(prompt.phi, prompt.y, eye.expand(len(prompt.phi), -1, -1))


def test_lasso_satisfies_its_optimality_conditions():
    """Φᵀ(y − Φw)/k is α·sign(w) where w is not 0, and at most α elsewhere."""
    prompt = with_unit_queries(KernelDraw(features=8, supports=20, outputs=2).draw(4, seed=0))
    w = Lasso(0.15).predict(prompt)
    slope = prompt.phi.mT @ (prompt.y - prompt.phi @ w) / 20
    zero = w == 0
    assert zero.any()
    assert not zero.all()
    torch.testing.assert_close(slope[~zero], 0.15 * w[~zero].sign(), rtol=0, atol=1e-5)
    assert (slope[zero].abs() <= 0.15 + 1e-9).all()


def test_lasso_shrinks_the_weights_of_orthonormal_features():
    phi = 2 * torch.eye(4, dtype=torch.float64)[None]  # ΦᵀΦ/k = I
    y = torch.tensor([3.0, -1.0, 0.1, 0.0], dtype=torch.float64)[None, :, None]
    w = Lasso(0.2).predict(with_unit_queries(Prompt(phi, y, phi)))[0, :, 0]
    torch.testing.assert_close(w, torch.tensor([1.3, -0.3, 0.0, 0.0], dtype=torch.float64))


def test_a_tuned_lasso_finds_few_weights_among_many():
    @dataclass(frozen=True)
    class Sparse(LinearRegression):
        def observe(self, batch, points, generator):
            x, _ = super().observe(batch, points, generator)
            noise = torch.randn(batch, points, 1, generator=generator, dtype=torch.float64)
            return x, x[..., :1] + self.noise * noise

    task = Sparse(supports=12, condition=1.0)
    tuned, sample = Lasso().fit(task, seed=0), held_out(task, 200)
    found = error(tuned.predict(sample.prompt), sample)
    others = [Lasso(tuned.alpha / 5), Lasso(tuned.alpha * 5), LeastSquares(), Ridge(task.ridge)]
    for other in others:
        worse = error(other.predict(sample.prompt), sample)
        assert estimate(worse - found, seed=0).low > 0


@pytest.mark.parametrize("k", [1, 4, 12])
def test_nearest_neighbours_are_scikit_learns(k):
    prompt = KernelDraw(supports=12, outputs=2).draw(3, seed=0)
    found = NearestNeighbours(k).predict(prompt)
    for b in range(3):
        peer = KNeighborsRegressor(k).fit(prompt.phi[b], prompt.y[b])
        np.testing.assert_allclose(found[b], peer.predict(prompt.phi_query[b]), atol=1e-12)


def test_the_smoother_is_the_solver_and_outlives_it():
    prompt = KernelDraw(supports=7, outputs=2).draw(2, seed=0)
    found = Smoother(0.8).predict(prompt)
    expected = solve(NadarayaWatson(), prompt, steps=1, ridge=1.0, kernel=Gaussian(0.8))
    torch.testing.assert_close(found, expected.final)
    # Far from all supports the kernel underflows; the nearest one decides.
    far = Prompt(prompt.phi, prompt.y, 100 + prompt.phi_query)
    torch.testing.assert_close(
        Smoother(0.01).predict(far), NearestNeighbours(1).predict(far), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    ("made", "option", "others"),
    [
        (NearestNeighbours, "neighbours", [lambda k: 1, lambda k: k + 5, lambda k: 16]),
        (Smoother, "bandwidth", [lambda h: h / 1.5, lambda h: 1.5 * h]),
        (FixedSteps, "eta", [lambda eta: eta / 1.5, lambda eta: 1.5 * eta]),
    ],
)
def test_tuning_finds_what_is_best_on_other_prompts_too(made, option, others):
    task = LinearRegression(features=4, supports=16, condition=10.0)
    tuned, sample = made().fit(task, seed=0), held_out(task, 1000)
    least = error(tuned.predict(sample.prompt), sample).mean()
    for other in others:
        worse = replace(tuned, **{option: other(getattr(tuned, option))})
        assert error(worse.predict(sample.prompt), sample).mean() > least


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda p: NearestNeighbours(9).predict(p), "at most all of the prompt's 8 supports"),
        (lambda p: NearestNeighbours(0).predict(p), "at least one"),
        (lambda p: Ridge().predict(p), "ridge has learned nothing yet"),
        (lambda p: Ridge(-1.0).predict(p), "positive"),
        (lambda p: FixedSteps(0), "at least one step"),
        (lambda p: LearnedSteps(0), "steps ≥ 1"),
        (lambda p: Adapter(updates=-1), "updates ≥ 0"),
        (lambda p: fitted("gd-preconditioned", "gp").predict(p), "fitted to 2 features"),
        (lambda p: fitted("adapter", "gp").predict(p), "fitted to 2 features"),
    ],
)
def test_refusals(ask, words):
    with pytest.raises(Refusal, match=words):
        ask(KernelDraw(features=3, supports=8).draw(1, seed=0))


def test_what_is_not_fitted_says_so():
    prompt = KernelDraw(features=3, supports=8).draw(1, seed=0)
    for name in set(BASELINES) - {"least-squares"}:
        with pytest.raises(Refusal, match=rf"{name} has learned nothing yet: call fit"):
            BASELINES[name]().predict(prompt)


def test_names_are_keys():
    assert all(name == made.name for name, made in BASELINES.items())
    assert len({made.label for made in BASELINES.values()}) == len(BASELINES)
    assert all(issubclass(task, LearnableTask) for task in LEARNABLE.values())
