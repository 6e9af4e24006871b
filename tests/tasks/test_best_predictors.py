"""The best predictor of each learnable task, against an independent computation for single prompts."""

from dataclasses import replace
from itertools import combinations, product
from math import cos, pi

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from ridgeformer.kernels import Polynomial
from ridgeformer.tasks import (
    LEARNABLE,
    GaussianProcess,
    Heteroskedastic,
    LinearRegression,
    LogisticRegression,
    MixtureOfRegressions,
    PoissonRegression,
    PolynomialRegression,
    ReLUNetwork,
    SparseRegression,
)
from ridgeformer.tasks.relu_network import arc_cosine

KERNELS = {"rbf": RBF, "matern12": Matern, "matern32": Matern, "matern52": Matern}


def by_linear(task, phi, y, query):
    return Ridge(task.noise**2 * task.features, fit_intercept=False).fit(phi, y).predict(query)


def by_shared_covariance(task, phi, y, query):
    """The Gaussian of all values, with the covariance of the inputs estimated from many of them."""
    x, _ = task.observe(1, 400_000, torch.Generator().manual_seed(9))
    inverse = np.linalg.inv((x[0].mT @ x[0] / x.shape[1]).numpy())
    return by_weights(task, phi, y, query, [(np.zeros(task.features), inverse / task.features)])


def by_interpolation(task, phi, y, query):
    return query @ np.linalg.pinv(phi) @ y


def by_gp(task, phi, y, query):
    means, evidence = [], []
    for scale, noise in product(task.lengthscales, task.noise_variances or (task.noise_variance,)):
        nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}.get(task.smoothness)
        kernel = RBF(scale) if nu is None else Matern(scale, nu=nu)
        fit = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(phi, y)
        means.append(fit.predict(query))
        evidence.append(fit.log_marginal_likelihood_value_)
    return mixed(means, evidence)


def mixed(means, evidence):
    weights = np.exp(np.array(evidence) - max(evidence))
    return weights / weights.sum() @ np.array(means)


def conditional(mean, covariance, k, y):
    """The mean of the rest of a Gaussian vector given its first k entries, and their log density."""
    density = stats.multivariate_normal(mean[:k], covariance[:k, :k]).logpdf(y)
    step = np.linalg.solve(covariance[:k, :k], y - mean[:k])
    return mean[k:] + covariance[k:, :k] @ step, density


def by_weights(task, phi, y, query, priors):
    """Every prior N(mean, covariance) of the weights as a Gaussian of all values, averaged."""
    x = np.concatenate([phi, query])
    noise = task.noise**2 * np.eye(len(x))
    results = [conditional(x @ m, x @ c @ x.T + noise, len(y), y) for m, c in priors]
    return mixed(*zip(*results, strict=True))


def by_sparse(task, phi, y, query):
    d, s = task.features, task.nonzero
    subsets = [np.isin(np.arange(d), chosen) / s for chosen in combinations(range(d), s)]
    return by_weights(task, phi, y, query, [(np.zeros(d), np.diag(v)) for v in subsets])


def by_mixture(task, phi, y, query):
    spread = task.deviation**2 / task.features * np.eye(task.features)
    return by_weights(task, phi, y, query, [(c, spread) for c in task.centres.numpy()])


def by_polynomial(task, phi, y, query):
    fit = KernelRidge(
        alpha=task.noise**2, kernel="poly", degree=task.degree, coef0=task.offset, gamma=1
    )
    return fit.fit(phi, y).predict(query)


def by_heteroskedastic(task, phi, y, query):
    deviation = task.noise * np.exp(np.log(task.ratio) * phi[:, 0] / 2)
    fit = Ridge(task.features / 3, fit_intercept=False).fit(phi, y, sample_weight=deviation**-2)
    return fit.predict(query)


def by_network(task, phi, y, query):
    x = np.concatenate([phi, query])
    z = np.c_[x, np.ones(len(x))] / np.sqrt(task.features + 1)
    fit = conditional(np.zeros(len(x)), angular(z) + task.noise**2 * np.eye(len(x)), len(y), y)
    return fit[0]


def angular(z):
    """2·E[relu⟨w, a⟩ relu⟨w, b⟩] by an integral over the direction of w in the plane of a and b."""

    def value(a, b):
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        angle = np.arccos(np.clip(a @ b / lengths, -1, 1))
        inside = (angle - pi / 2, pi / 2)  # where both cosines are positive
        return lengths * 4 / (2 * pi) * quad(lambda t: cos(t) * cos(t - angle), *inside)[0]

    return np.array([[value(a, b) for b in z] for a in z])


def by_grid(task, phi, y, query):
    """E[y | x] on a grid of all weights within 7 standard deviations, in one or two dimensions."""
    axis = np.linspace(-7, 7, 4001 if task.features == 1 else 301)
    nodes = np.stack(np.meshgrid(*[axis] * task.features), -1).reshape(-1, task.features)
    prior = -0.5 * (nodes**2).sum(1)
    w = task.scale / np.sqrt(task.features) * nodes
    return mixed(rate(task, w @ query.T), prior + likelihood(task, w @ phi.T, y))


def by_prior(task, phi, y, query):
    """Many draws from the prior, weighted by their likelihood."""
    draws = np.random.default_rng(0).normal(size=(300_000, task.features))
    w = task.scale / np.sqrt(task.features) * draws
    return mixed(rate(task, w @ query.T), likelihood(task, w @ phi.T, y))


def rate(task, eta):
    return getattr(task, "max_rate", 1.0) / (1 + np.exp(-eta))


def likelihood(task, eta, y):
    family = stats.bernoulli if task.name == "logistic" else stats.poisson
    return sum(family.logpmf(y[i], rate(task, eta[:, i])) for i in range(len(y)))


EXACT = [
    (LinearRegression(), by_linear),
    (LinearRegression(features=3, spectrum=(4.0, 1.0, 0.1)), by_linear),
    (LinearRegression(noise=0.0), by_interpolation),
    (LinearRegression(rotation="fixed"), by_linear),
    *((GaussianProcess(smoothness=kind), by_gp) for kind in KERNELS),
    (GaussianProcess(lengthscales=(0.2, 1.0), noise_variances=(0.05, 0.5)), by_gp),
    (SparseRegression(), by_sparse),
    (SparseRegression(features=5, nonzero=3, noise=1.0), by_sparse),
    (SparseRegression(features=3, nonzero=3), by_sparse),
    (PolynomialRegression(), by_polynomial),
    (PolynomialRegression(features=3, degree=2, offset=0.5), by_polynomial),
    (Heteroskedastic(), by_heteroskedastic),
    (MixtureOfRegressions(), by_mixture),
    (MixtureOfRegressions(deviation=0.0, noise=1.0), by_mixture),
    (ReLUNetwork(), by_network),
]


def case(task, supports, seed=5):
    prompt = replace(task, queries=4).sample(3, torch.Generator().manual_seed(seed), supports)
    return prompt.prompt


def peers(task, prompt, peer):
    arrays = (prompt.phi.numpy(), prompt.y[..., 0].numpy(), prompt.phi_query.numpy())
    return np.stack([peer(task, *arguments) for arguments in zip(*arrays, strict=True)])


@pytest.mark.parametrize(("task", "peer"), EXACT, ids=lambda v: getattr(v, "name", ""))
def test_closed_forms(task, peer):
    for supports in (3, 12):
        prompt = case(task, supports)
        found = task.best(prompt)[..., 0].numpy()
        np.testing.assert_allclose(found, peers(task, prompt, peer), rtol=1e-7, atol=1e-8)


def test_every_task_has_a_peer():
    assert {task.name for task, _ in EXACT} | {"logistic", "poisson"} == set(LEARNABLE)


SAMPLED = [LogisticRegression(), PoissonRegression()]


@pytest.mark.parametrize("task", SAMPLED, ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("features", "supports", "peer"), [(1, 8, by_grid), (2, 12, by_grid), (4, 4, by_prior)]
)
def test_importance_sampling(task, features, supports, peer, unchecked):
    task = replace(task, features=features)
    prompt = case(task, supports)
    expected = peers(task, prompt, peer)
    top = getattr(task, "max_rate", 1.0)
    assert np.abs(task.best(prompt)[..., 0].numpy() - expected).max() < 0.01 * top
    mode = task.laplace(prompt.phi, prompt.y)[0]
    plain = task.mean(prompt.phi_query @ mode.mT)[..., 0].numpy()
    assert np.abs(plain - expected).max() > 0.01 * top  # the mode alone would not do


@pytest.mark.parametrize("task", SAMPLED, ids=lambda t: t.name)
@pytest.mark.parametrize("supports", [1, 8, 32])
def test_the_error_of_the_sample_is_small(task, supports, unchecked):
    """Its square is below 10⁻³ of what there is to learn, from other and many more nodes."""
    prompt = case(task, supports)
    arrays = (prompt.phi, prompt.y, prompt.phi_query)
    fine = task.expected(*arrays, nodes=32768, seed=1)
    centre = 0.5 * getattr(task, "max_rate", 1.0)
    error, signal = (task.best(prompt) - fine).square().mean(), (fine - centre).square().mean()
    assert float(error) < 1e-3 * float(signal)


def test_polynomials_have_the_covariance_of_the_polynomial_kernel():
    for task in (PolynomialRegression(), PolynomialRegression(features=4, degree=2, offset=0.3)):
        x = case(task, 6).phi
        basis = task.monomials(x)
        expected = Polynomial(task.degree, task.offset)(x, x)
        torch.testing.assert_close(basis @ basis.mT, expected)
        assert float(x.norm(dim=-1).max()) <= 1


@pytest.mark.parametrize("width", [1, 8])
def test_networks_of_any_width_have_the_arc_cosine_covariance(width, unchecked):
    """Given x, the covariance over networks; the observed products in their standard errors."""
    task = ReLUNetwork(features=2, width=width)
    x, y = task.observe(40_000, 2, torch.Generator().manual_seed(0))
    z = task.lifted(x)
    found = y[:, 0, 0] * y[:, 1, 0]
    rest = found - arc_cosine(z[:, :1], z[:, 1:])[:, 0, 0]
    assert abs(float(rest.mean())) < 4 * float(rest.std()) / 200
    assert float(found.mean()) > 20 * float(rest.std()) / 200  # a covariance to be wrong about


def test_a_chosen_spectrum_is_that_of_the_inputs(unchecked):
    task = LinearRegression(features=3, spectrum=(4.0, 1.0, 0.1))
    x, _ = task.observe(4, 20_000, torch.Generator().manual_seed(0))
    found = torch.linalg.eigvalsh(x.mT @ x / 20_000).flip(1)
    expected = torch.tensor([task.spectrum] * 4, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0.06, atol=0)


SHARED = LinearRegression(
    features=3, spectrum=(4.0, 1.0, 0.25), rotation="fixed", rotation_seed=2, prior="inverse-covariance"
)  # fmt: skip


def test_a_prior_of_inverse_covariance_is_that_of_the_inputs(unchecked):
    prompt = case(SHARED, 4)
    found = SHARED.best(prompt)[..., 0].numpy()
    expected = peers(SHARED, prompt, by_shared_covariance)
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    wrong = peers(SHARED, prompt, by_linear)
    assert np.abs(found - wrong).max() > 0.1 * np.abs(expected).max()


def test_all_prompts_share_a_fixed_rotation(unchecked):
    x, _ = SHARED.observe(4, 50_000, torch.Generator().manual_seed(0))
    covariances = x.mT @ x / x.shape[1]
    mean = covariances.mean(0, keepdim=True).expand(4, -1, -1)
    torch.testing.assert_close(covariances, mean, rtol=0, atol=0.1)
    assert float(mean[0].triu(1).abs().max()) > 0.2  # it is not the identity
    plain, _ = replace(SHARED, rotation="none").observe(1, 50_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        plain[0].mT @ plain[0] / 50_000, torch.tensor(SHARED.spectrum).double().diag(), rtol=0, atol=0.1
    )  # fmt: skip
    other, _ = replace(SHARED, rotation_seed=3).observe(1, 50_000, torch.Generator().manual_seed(0))
    assert float((other[0].mT @ other[0] / 50_000 - mean[0]).abs().max()) > 0.2


def test_weights_of_inverse_covariance_give_all_directions_the_same_share(unchecked):
    """w ~ N(0, Σ⁻¹/d) makes ⟨w, x⟩ of variance 1, to which every eigenvector of Σ adds 1/d."""
    _, y = replace(SHARED, noise=0.0).observe(20_000, 1, torch.Generator().manual_seed(0))
    assert abs(float(y.square().mean()) - 1) < 0.06


def test_sparse_weights_are_sparse_and_any_of_them():
    task = SparseRegression(features=4, nonzero=2, noise=1e-9)
    x, y = task.observe(600, 12, torch.Generator().manual_seed(0))
    w = torch.linalg.lstsq(x, y).solution[..., 0]
    chosen = w.abs() > 1e-6
    assert (chosen.sum(1) == 2).all()
    shares = chosen.double().mean(0)
    assert float((shares - 0.5).abs().max()) < 4 * 0.5 / 600**0.5
    assert abs(float(w[chosen].var()) - 0.5) < 4 * 0.5 * (2 / 1200) ** 0.5
