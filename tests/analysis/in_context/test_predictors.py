"""Predictors and their influence: against scikit-learn, against finite changes, and against each other."""

from math import inf

import numpy as np
import pytest
import torch
from planted_learners import drawn
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge as LinearRidge
from sklearn.neighbors import KNeighborsRegressor, NearestCentroid

from ridgeformer.analysis.in_context import (
    Centroids,
    FixedMetric,
    GivenWeights,
    LastTarget,
    MeanTarget,
    Ridge,
    Smoothing,
    likeliest_process,
    neighbours,
    responses,
    ridge_influence,
    ridge_on_inputs,
)
from ridgeformer.baselines import Smoother
from ridgeformer.kernels import Exponential, Gaussian, Linear
from ridgeformer.solvers import NadarayaWatson, solve
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

PROMPT = Prompt(drawn(4, 7, 3), drawn(4, 7, 1, seed=1), drawn(4, 5, 3, seed=2))
LABELS = Prompt(PROMPT.phi, PROMPT.y.sign(), PROMPT.phi_query)
GIVEN = drawn(4, 7, 5, seed=3).exp()

LINEAR_IN_TARGETS = {
    "ridge": Ridge(0.3, Linear()),
    "ridge, rbf": Ridge(0.1, Gaussian(0.8)),
    "similarity": Ridge(inf, Linear()),
    "smoothing": Smoothing(0.7, Linear()),
    "smoothing, rbf": Smoothing(1.0, Gaussian(0.8)),
    "metric": FixedMetric(0.2, Linear(), drawn(30, 3, seed=4), 7),
    "metric, rbf": FixedMetric(0.2, Gaussian(0.8), drawn(30, 3, seed=4), 7),
    "neighbours": neighbours(3),
    "process": likeliest_process(PROMPT),
    "inputs": ridge_on_inputs(0.5),
    "attention": GivenWeights(GIVEN),
    "last": LastTarget(),
    "mean": MeanTarget(),
}


@pytest.mark.parametrize("name", LINEAR_IN_TARGETS)
def test_influence_is_the_response_to_any_change_and_makes_the_prediction(name):
    predictor = LINEAR_IN_TARGETS[name]
    influence = predictor.influence(PROMPT)
    assert influence.shape == (4, 7, 5)
    change = drawn(4, 7, seed=5)
    torch.testing.assert_close(responses(predictor, PROMPT, change), influence)
    said = torch.einsum("bkq,bk->bq", influence, PROMPT.y[..., 0])
    torch.testing.assert_close(said, predictor.predict(PROMPT)[..., 0])


@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (Linear(), {"kernel": "linear"}),
        (Gaussian(0.8), {"kernel": "rbf", "gamma": 0.5 / 0.8**2}),
    ],
    ids=["linear", "rbf"],
)
def test_ridge_influence_is_that_of_scikit_learn(kernel, theirs):
    """KernelRidge is fitted once for each support, with a target of 1 there and 0 elsewhere."""
    found = Ridge(0.3, kernel).influence(PROMPT).numpy()
    for b in range(4):
        model = KernelRidge(alpha=0.3, **theirs).fit(PROMPT.phi[b].numpy(), np.eye(7))
        np.testing.assert_allclose(found[b], model.predict(PROMPT.phi_query[b].numpy()).T, rtol=1e-8, atol=1e-12)  # fmt: skip


def test_ridge_with_cosines_is_scikit_learns_on_the_cosine_kernel():
    unit = Prompt(*(x / x.norm(dim=-1, keepdim=True) if i != 1 else x for i, x in enumerate((PROMPT.phi, PROMPT.y, PROMPT.phi_query))))  # fmt: skip
    found = Ridge(0.2, Linear()).influence(unit).numpy()
    for b in range(4):
        model = KernelRidge(alpha=0.2, kernel="cosine").fit(PROMPT.phi[b].numpy(), np.eye(7))
        np.testing.assert_allclose(found[b], model.predict(PROMPT.phi_query[b].numpy()).T, rtol=1e-8, atol=1e-12)  # fmt: skip


def test_a_grid_of_ridges_is_each_of_them_and_ends_in_similarity():
    ridges = [0.05, 1.0, 40.0, inf]
    grid = ridge_influence(PROMPT, Gaussian(1.1), ridges)
    for found, ridge in zip(grid, ridges, strict=True):
        torch.testing.assert_close(found, Ridge(ridge, Gaussian(1.1)).influence(PROMPT))
    large = ridge_influence(PROMPT, Linear(), [1e7, inf])
    torch.testing.assert_close(1e7 * large[0], large[1], rtol=1e-4, atol=1e-5)


def test_smoothing_is_the_baseline_and_the_solver_of_its_name():
    torch.testing.assert_close(
        Smoothing(1.0, Gaussian(0.8)).predict(PROMPT), Smoother(0.8).predict(PROMPT)
    )
    for kernel in (Gaussian(0.8), Exponential(0.6)):
        exact = solve(NadarayaWatson(), PROMPT, steps=1, ridge=1.0, kernel=kernel).final
        torch.testing.assert_close(Smoothing(1.0, kernel).predict(PROMPT), exact)
    weights = Smoothing(0.5, Linear()).influence(PROMPT)
    torch.testing.assert_close(weights.sum(1), torch.ones(4, 5).double())
    cold = Smoothing(1e-4, Gaussian(0.8)).influence(PROMPT)
    torch.testing.assert_close(cold, neighbours(1).influence(PROMPT))


def test_neighbours_are_scikit_learns():
    found = neighbours(3).influence(PROMPT).numpy()
    for b in range(4):
        model = KNeighborsRegressor(3).fit(PROMPT.phi[b].numpy(), np.eye(7))
        np.testing.assert_allclose(found[b], model.predict(PROMPT.phi_query[b].numpy()).T)


def test_a_fixed_metric_is_its_formula_and_that_of_the_prompt_itself_is_ridge_regression():
    landmarks, ridge = drawn(30, 3, seed=4), 0.2
    moment = 7 / 30 * landmarks.mT @ landmarks + ridge * torch.eye(3).double()
    by_hand = ridge * PROMPT.phi @ torch.linalg.solve(moment, PROMPT.phi_query.mT)
    torch.testing.assert_close(
        FixedMetric(ridge, Linear(), landmarks, 7).influence(PROMPT), by_hand
    )
    one = PROMPT[0]
    own = FixedMetric(ridge, Gaussian(0.8), one.phi[0], 7).influence(one)
    torch.testing.assert_close(own, ridge * Ridge(ridge, Gaussian(0.8)).influence(one))


def test_centroids_are_scikit_learns_and_their_influence_is_that_of_flips():
    said = Centroids().predict(LABELS)[..., 0]
    for b in range(4):
        model = NearestCentroid().fit(LABELS.phi[b].numpy(), LABELS.y[b, :, 0].numpy())
        assert (model.predict(LABELS.phi_query[b].numpy()) == said[b].sign().numpy()).all()
    influence = Centroids().influence(LABELS)
    flipped = LABELS.y.clone()
    flipped[:, 2] *= -1
    moved = Centroids().predict(Prompt(LABELS.phi, flipped, LABELS.phi_query))[..., 0]
    torch.testing.assert_close(influence[:, 2], (moved - said) / (-2 * LABELS.y[:, 2]))


def test_a_class_that_loses_its_last_support_has_the_mean_of_all():
    prompt = Prompt(PROMPT.phi[:, :3], torch.tensor([1.0, -1.0, -1.0]).double().expand(4, 3)[..., None], PROMPT.phi_query)  # fmt: skip
    assert torch.isfinite(Centroids().influence(prompt)).all()
    with pytest.raises(Refusal, match="one is 0"):
        Centroids().influence(Prompt(prompt.phi, 0 * prompt.y, prompt.phi_query))


def test_the_likeliest_process_predicts_as_scikit_learns_with_its_scales():
    process = likeliest_process(PROMPT)
    s = process.baseline.scales
    kernel = ConstantKernel(s.variance, "fixed") * RBF(s.lengthscale, "fixed")
    for b in range(4):
        model = GaussianProcessRegressor(kernel, alpha=s.noise_variance, optimizer=None)
        model.fit(PROMPT.phi[b].numpy(), PROMPT.y[b, :, 0].numpy())
        expected = model.predict(PROMPT.phi_query[b].numpy())
        np.testing.assert_allclose(process.predict(PROMPT)[b, :, 0].numpy(), expected, atol=1e-6)


def test_ridge_on_inputs_has_a_column_of_ones():
    found = ridge_on_inputs(0.5).predict(PROMPT)[..., 0].numpy()
    ones = [np.c_[x.numpy(), np.ones(len(x))] for x in (PROMPT.phi[1], PROMPT.phi_query[1])]
    model = LinearRidge(0.5, fit_intercept=False).fit(ones[0], PROMPT.y[1, :, 0].numpy())
    np.testing.assert_allclose(found[1], model.predict(ones[1]))


def test_attention_is_normalised_over_supports_and_refused_without_any():
    predictor = GivenWeights(GIVEN)
    torch.testing.assert_close(predictor.influence(PROMPT), GIVEN / GIVEN.sum(1, keepdim=True))
    with pytest.raises(Refusal, match="positive sum"):
        GivenWeights(0 * GIVEN).predict(PROMPT)
