"""Every learnable task: seeded, of its shapes, and with a best predictor that nothing corrects.

A posterior mean f has E[(y − f)·g] = 0 for every function g of the prompt, and no predictor has a
smaller squared error. Wrong predictors are planted below, to see that these tests can fail.
"""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

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
    gaussian_process,
    mixture,
    sparse_regression,
)
from ridgeformer.tasks.generalised_linear import GeneralisedLinear
from ridgeformer.training import Recipe
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

SETTINGS = {
    **{name: task() for name, task in LEARNABLE.items()},
    "linear-spectrum": LinearRegression(features=3, spectrum=(4.0, 1.0, 0.1)),
    "linear-shared": LinearRegression(
        features=3, spectrum=(4.0, 1.0, 0.1), rotation="fixed", prior="inverse-covariance"
    ),
    "linear-exact": LinearRegression(features=14, noise=0.0, rotation="none"),
    "gp-rough": GaussianProcess(smoothness="matern12"),
    "gp-scales": GaussianProcess(lengthscales=(0.2, 2.0), noise_variances=(0.01, 0.5)),
    "mixture-discrete": MixtureOfRegressions(deviation=0.0, components=16, noise=1.0),
}
POSTERIOR_MEANS = [n for n, t in SETTINGS.items() if t.exact or isinstance(t, GeneralisedLinear)]
"""Those of importance sampling too, as its error is far below what is seen here."""
SURE = 4.5
"""Standard errors: about 1 in 10⁵ by chance."""


def generator(seed):
    return torch.Generator().manual_seed(seed)


@cache
def drawn(task):
    """Prompts of few supports, where the prior counts, and what rivals say of them."""
    slow = isinstance(task, GeneralisedLinear)
    few = replace(task, supports=6 if slow else 12, queries=4)
    sample = few.sample(1500 if slow else 3000, generator(7))
    return sample, rivals(sample.prompt)


def ridge(prompt, penalty):
    phi, y = prompt.phi, prompt.y
    system = phi @ phi.mT + penalty * torch.eye(phi.shape[1])
    return prompt.phi_query @ phi.mT @ torch.linalg.solve(system, y)


def gaussian(scale):
    return lambda a, b: (-((a[:, :, None] - b[:, None]) ** 2).sum(-1) / (2 * scale**2)).exp()


def cubic(a, b):
    return (a @ b.mT + 1) ** 3


def kernel_ridge(prompt, kernel):
    system = kernel(prompt.phi, prompt.phi) + 0.1 * torch.eye(prompt.supports)
    return kernel(prompt.phi_query, prompt.phi) @ torch.linalg.solve(system, prompt.y)


def nearest(prompt, count=3):
    index = torch.cdist(prompt.phi_query, prompt.phi).topk(count, largest=False).indices
    return prompt.y[:, :, 0].gather(1, index.flatten(1)).view(index.shape).mean(-1, keepdim=True)


def linear_rivals(prompt):
    """Predictors that are linear in the targets."""
    shape = prompt.phi_query[..., :1]
    mean = prompt.y.mean(1, keepdim=True)
    return {
        "mean": mean.expand_as(shape),
        "weak ridge": ridge(prompt, 0.1),
        "strong ridge": ridge(prompt, 10.0),
        "narrow kernel": kernel_ridge(prompt, gaussian(0.3)),
        "wide kernel": kernel_ridge(prompt, gaussian(1.5)),
        "cubic kernel": kernel_ridge(prompt, cubic),
        "neighbours": nearest(prompt),
    }


def rivals(prompt):
    least = {f"|{n}|": g.abs() for n, g in linear_rivals(prompt).items() if "ridge" in n}
    return {"one": torch.ones_like(prompt.phi_query[..., :1]), **least, **linear_rivals(prompt)}


def leftovers(best, sample, others):
    """E[(y − f)·f] and E[(y − f)(g − f)] in standard errors over prompts, for every g."""
    rest = sample.targets - best
    products = {"itself": rest * best, **{n: rest * (g - best) for n, g in others.items()}}
    means = {n: p.mean((1, 2)) for n, p in products.items()}
    return {n: float(m.mean() / m.std() * len(m) ** 0.5) for n, m in means.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_samples_are_seeded_and_of_their_shapes(name):
    task = SETTINGS[name]
    first, again, other = (task.sample(3, generator(s)) for s in (1, 1, 2))
    assert torch.equal(first.prompt.phi, again.prompt.phi)
    assert torch.equal(first.prompt.y, again.prompt.y)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.prompt.phi, other.prompt.phi)
    assert not torch.equal(first.prompt.y, other.prompt.y)
    assert not torch.equal(first.prompt.phi[0], first.prompt.phi[1])
    best = task.best(first.prompt)
    assert torch.equal(best, task.best(again.prompt))
    for values in (first.targets, best):
        assert values.shape == (3, task.queries, 1)
        assert values.dtype == torch.float64
        assert torch.isfinite(values).all()
    assert first.prompt.phi.shape == (3, task.supports, task.features)
    for supports in (1, 5):
        few = task.sample(2, generator(1), supports)
        assert few.prompt.supports == supports
        assert torch.isfinite(task.best(few.prompt.to(torch.float32))).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_prediction_depends_on_its_own_prompt_and_query_alone(name):
    task = SETTINGS[name]
    prompt = replace(task, queries=3).sample(3, generator(0), 6).prompt
    parts = (t[1:2] for t in (prompt.phi.flip(1), prompt.y.flip(1), prompt.phi_query[:, 2:]))
    alone = task.best(type(prompt)(*parts))
    torch.testing.assert_close(alone, task.best(prompt)[1:2, 2:], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", SETTINGS)
def test_recipes_hold_every_task(name):
    values = json.loads(json.dumps({"name": "r", "task": SETTINGS[name].to_dict()}))
    recipe = Recipe.from_dict(values)
    assert recipe.task == SETTINGS[name]
    assert Recipe.from_dict(recipe.to_dict()) == recipe


@pytest.mark.parametrize("name", POSTERIOR_MEANS)
def test_nothing_is_left_over_by_a_posterior_mean(name):
    sample, others = drawn(SETTINGS[name])
    found = leftovers(SETTINGS[name].best(sample.prompt), sample, others)
    assert max(map(abs, found.values())) < SURE, found


@pytest.mark.parametrize("width", [1, 32])
def test_nothing_linear_is_left_over_for_a_network_of_any_width(width):
    task = ReLUNetwork(width=width)
    sample = drawn(task)[0]
    found = leftovers(task.best(sample.prompt), sample, linear_rivals(sample.prompt))
    assert max(map(abs, found.values())) < SURE, found


def without_evidence(module):
    def best(task, prompt):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "averaged", lambda values, evidence: values.mean(1))
            return task.best(prompt)

    return best


def at_the_mode(task, prompt):
    return task.mean(prompt.phi_query @ task.laplace(prompt.phi, prompt.y)[0].mT)


def with_other(**changes):
    return lambda task, prompt: replace(task, **changes).best(prompt)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("linear", with_other(noise=0.1)),
        ("linear-spectrum", with_other(noise=0.6)),
        ("linear-shared", with_other(prior="isotropic")),
        ("linear-shared", with_other(rotation_seed=1)),
        ("linear-shared", with_other(rotation="none")),
        ("linear-exact", with_other(noise=0.3)),
        ("gp", with_other(lengthscales=(0.8,))),
        ("gp", with_other(noise_variance=0.3)),
        ("gp-rough", with_other(smoothness="rbf")),
        ("gp-scales", with_other(lengthscales=(0.2,))),
        ("gp-scales", with_other(noise_variances=(0.5,))),
        ("gp-scales", without_evidence(gaussian_process)),
        ("sparse", with_other(nonzero=3)),
        ("sparse", without_evidence(sparse_regression)),
        ("polynomial", with_other(degree=2)),
        ("polynomial", with_other(offset=0.3)),
        ("heteroskedastic", with_other(ratio=1.0)),
        ("heteroskedastic", with_other(ratio=3.0)),
        ("mixture", with_other(deviation=0.6)),
        ("mixture", with_other(centres_seed=1)),
        ("mixture", without_evidence(mixture)),
        ("mixture-discrete", with_other(noise=2.0)),
        ("logistic", at_the_mode),
        ("logistic", with_other(scale=8.0)),
        ("poisson", with_other(scale=6.0)),
        ("relu-network", with_other(noise=0.3)),
    ],
)
def test_wrong_predictors_leave_something_over(name, wrong):
    task = SETTINGS[name]
    sample, others = drawn(task)
    found = leftovers(wrong(task, sample.prompt), sample, others)
    assert max(map(abs, found.values())) > SURE, found


RIVALS = {
    "ridge": lambda: RidgeCV(np.logspace(-3, 2, 11)),
    "narrow kernel": lambda: KernelRidge(kernel="rbf", gamma=2.0, alpha=0.1),
    "cubic": lambda: KernelRidge(kernel="poly", degree=3, gamma=1.0, alpha=0.3),
    "neighbours": lambda: KNeighborsRegressor(3),
}


def losses(name, predictor):
    """Squared errors of prompts: of a predictor, of rivals fitted to each prompt, and of the mean."""
    task = replace(SETTINGS[name], queries=8)
    sample = task.sample(40, generator(3), 16)
    phi, y, query = (
        t.numpy() for t in (sample.prompt.phi, sample.prompt.y[..., 0], sample.prompt.phi_query)
    )
    targets = sample.targets.numpy()[..., 0]
    found = {"mean": np.broadcast_to(y.mean(1, keepdims=True), targets.shape)}
    for rival, make in RIVALS.items():
        fits = [make().fit(a, b).predict(c) for a, b, c in zip(phi, y, query, strict=True)]
        found[rival] = np.stack(fits)
    errors = {n: ((f - targets) ** 2).mean(1) for n, f in found.items()}
    return ((predictor(task, sample.prompt)[..., 0].numpy() - targets) ** 2).mean(1), errors


def beaten_by(ours, errors):
    """The rivals whose error is smaller in 999 of 1000 bootstrap samples of the prompts."""
    picks = np.random.default_rng(0).integers(len(ours), size=(2000, len(ours)))
    return [n for n, e in errors.items() if np.quantile((e - ours)[picks].mean(1), 0.999) < 0]


def test_slices_of_mixed_condition_numbers_have_one_each():
    task = LinearRegression(features=4, condition=20.0)
    parts = task.slices()
    assert list(parts) == ["κ = 1", "κ = 3", "κ = 10", "κ = 20"]
    for name, part in parts.items():
        x, _ = part.observe(3, 20_000, generator(0))
        found = torch.linalg.eigvalsh(x.mT @ x / 20_000)
        condition = torch.full_like(found[:, 0], float(name.removeprefix("κ = ")))
        torch.testing.assert_close(found[:, -1] / found[:, 0], condition, rtol=0.1, atol=0)
        torch.testing.assert_close(found.mean(1), torch.ones_like(condition), rtol=0.1, atol=0)
    assert LinearRegression(condition=1.0).slices() == {}
    assert LinearRegression(features=2, spectrum=(2.0, 1.0)).slices() == {}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_rival_beats_the_best_predictor(name):
    ours, errors = losses(name, lambda task, prompt: task.best(prompt))
    assert not beaten_by(ours, errors)
    assert ours.mean() < 0.98 * errors["mean"].mean()  # there is something to learn


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("linear", with_other(noise=5.0)),
        ("gp", with_other(lengthscales=(5.0,))),
        ("mixture", with_other(centres_seed=1, deviation=0.1)),
        ("polynomial", with_other(degree=1)),
    ],
)
def test_rivals_beat_wrong_predictors(name, wrong):
    assert beaten_by(*losses(name, wrong))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: LinearRegression(condition=0.5), "condition ≥ 1; got condition 0.5"),
        (lambda: LinearRegression(noise=-0.1), "noise ≥ 0"),
        (lambda: LinearRegression(rotation="mirror"), "a rotation of random, fixed, none"),
        (lambda: LinearRegression(rotation_seed=-1), "rotation_seed ≥ 0"),
        (lambda: LinearRegression(prior="flat"), "a prior of isotropic, inverse-covariance"),
        (lambda: LinearRegression(prior="inverse-covariance"), "a spectrum and a rotation"),
        (lambda: LinearRegression(features=2, spectrum=(1.0,)), "for each feature"),
        (lambda: LinearRegression(features=2, spectrum=(1.0, 0.0)), "for each feature"),
        (lambda: LinearRegression(features=0), "features ≥ 1"),
        (lambda: GaussianProcess(lengthscales=()), "lengthscales > 0"),
        (lambda: GaussianProcess(lengthscales=(1.0, float("nan"))), "a finite lengthscales"),
        (lambda: GaussianProcess(noise_variance=0.0), "noise_variance > 0"),
        (lambda: GaussianProcess(noise_variances=(0.1, -1.0)), "noise_variances > 0"),
        (lambda: GaussianProcess(smoothness="cubic"), "a smoothness of rbf"),
        (lambda: SparseRegression(nonzero=9), "nonzero ≤ features"),
        (lambda: SparseRegression(nonzero=0), "nonzero ≤ features"),
        (lambda: SparseRegression(features=40, nonzero=10), "at most 5000 subsets"),
        (lambda: SparseRegression(noise=-1.0), "noise > 0"),
        (lambda: PolynomialRegression(degree=0), "degree ≥ 1"),
        (lambda: PolynomialRegression(offset=-1.0), "offset ≥ 0"),
        (lambda: PolynomialRegression(features=20, degree=5), "at most 1000 monomials"),
        (lambda: PolynomialRegression(noise=float("inf")), "a finite noise"),
        (lambda: Heteroskedastic(ratio=0.5), "ratio ≥ 1"),
        (lambda: Heteroskedastic(noise=0.0), "noise > 0"),
        (lambda: MixtureOfRegressions(components=0), "components ≥ 1"),
        (lambda: MixtureOfRegressions(deviation=-0.1), "deviation ≥ 0"),
        (lambda: MixtureOfRegressions(noise=0.0), "noise > 0"),
        (lambda: MixtureOfRegressions(centres_seed=-1), "centres_seed ≥ 0"),
        (lambda: LogisticRegression(scale=0.0), "scale > 0"),
        (lambda: LogisticRegression(features=9), "at most 8 features"),
        (lambda: PoissonRegression(max_rate=0.0), "max_rate > 0"),
        (lambda: PoissonRegression(queries=0), "queries ≥ 1"),
        (lambda: ReLUNetwork(width=0), "width ≥ 1"),
        (lambda: ReLUNetwork(noise=0.0), "noise > 0"),
        (lambda: ReLUNetwork(supports=0), "supports ≥ 1"),
    ],
)
def test_impossible_tasks_are_refused(make, reason):
    with pytest.raises(Refusal, match=reason) as refused:
        make()
    assert "\n" not in str(refused.value)
