"""`InContextRegressor`: saved models answer as they do without scikit-learn, in the units of the data."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import make_regression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV

import ridgeformer as rf
from ridgeformer.models import zoo
from ridgeformer.sklearn import InContextRegressor, in_context, passes
from ridgeformer.training import OutsideTraining

pytestmark = pytest.mark.usefixtures("unchecked")


def drawn(features=8, pairs=30, outputs=1):
    X, y = make_regression(
        pairs + 40, features, n_targets=outputs, noise=10.0, bias=50.0, random_state=features
    )
    return X[:pairs], y[:pairs], X[pairs:], y[pairs:]


def compiled(outputs=1, **options):
    to = rf.LinearAttention(1e3, rf.Exact())
    return rf.compile(
        rf.ConjugateGradient(), features=8, steps=12, ridge=0.5, outputs=outputs, to=to, **options
    )


@pytest.mark.parametrize("name", ["linear", "linear-attention"])
def test_predictions_are_the_models_own(name):
    """On standardised data, to the precision of the model that is shipped, which is float32."""
    X, y, query, _ = drawn()
    mean, scale = X.mean(0), X.std(0)
    prompt = rf.Prompt((X - mean) / scale, (y - y.mean()) / y.std(), (query - mean) / scale)
    direct = zoo.load(name).predict(prompt)[0, :, 0].double().numpy() * y.std() + y.mean()
    found = InContextRegressor(name).fit(X, y).predict(query)
    assert np.abs(found - direct).max() < 1e-4 * y.std()


def test_a_compiled_model_is_kernel_ridge_regression():
    X, y, query, _ = drawn(pairs=60)
    exact = KernelRidge(alpha=0.5).fit(X, y).predict(query)
    found = InContextRegressor(compiled(), standardise=False).fit(X, y).predict(query)
    assert np.allclose(found, exact, rtol=1e-6)


def test_fewer_features_are_filled_up_with_zeros():
    X, y, query, _ = drawn(features=5)
    exact = KernelRidge(alpha=0.5).fit(X, y).predict(query)
    found = InContextRegressor(compiled(), standardise=False).fit(X, y).predict(query)
    assert np.allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize(("features", "pairs"), [(3, 20), (10, 64), (20, 64)])
def test_the_default_model_is_about_as_good_as_ridge_regression(features, pairs):
    """On data as noisy as those that it was trained on, with other features and numbers of pairs."""
    errors = []
    for seed in range(4):
        X, y = make_regression(pairs + 40, features, bias=50.0, random_state=seed)
        y = y + 0.3 * y.std() * np.random.default_rng(seed).normal(size=len(y))
        train, test = slice(None, pairs), slice(pairs, None)
        errors.append(
            [
                np.mean((model.fit(X[train], y[train]).predict(X[test]) - y[test]) ** 2) / y.var()
                for model in (InContextRegressor(), RidgeCV(np.logspace(-3, 2, 11)))
            ]
        )
    ours, ridge = np.mean(errors, 0)
    assert ours < 1.2 * ridge
    assert ours < 0.2


@pytest.mark.parametrize("standardise", [True, False])
def test_several_outputs_are_those_of_each(standardise):
    X, y, query, _ = drawn(outputs=3)
    for model in ("linear", compiled()):
        estimator = InContextRegressor(model, standardise=standardise)
        together = estimator.fit(X, y).predict(query)
        alone = [estimator.fit(X, column).predict(query) for column in y.T]
        assert together.shape == (40, 3)
        assert np.allclose(together, np.stack(alone, 1), rtol=1e-7, atol=1e-7)
    model = compiled(outputs=3)
    found = InContextRegressor(model, standardise=standardise).fit(X, y).predict(query)
    assert np.allclose(found, together, rtol=1e-7, atol=1e-7)


def test_models_come_by_name_from_a_directory_or_loaded(tmp_path):
    X, y, query, _ = drawn()
    compiled().save(tmp_path / "cg")
    for given, same in (
        ("linear", zoo.load("linear")),
        ("linear", zoo.path_of("linear")),
        (tmp_path / "cg", compiled()),
        (str(tmp_path / "cg"), compiled()),
    ):
        found = [InContextRegressor(m).fit(X, y).predict(query) for m in (given, same)]
        assert np.array_equal(*found)


def test_a_loop_runs_as_often_as_asked():
    X, y, query, _ = drawn()
    model = compiled(looped=True)
    few, many = (
        InContextRegressor(model, steps=steps, standardise=False).fit(X, y).predict(query)
        for steps in (2, 12)
    )
    exact = KernelRidge(alpha=0.5).fit(X, y).predict(query)
    assert np.abs(few - exact).max() > 1
    assert np.allclose(many, exact, rtol=1e-6)
    with pytest.raises(ValueError, match="has a loop"):
        InContextRegressor(model).fit(X, y)
    for other in ("linear", compiled()):
        with pytest.raises(ValueError, match="leave `steps`"):
            InContextRegressor(other, steps=3).fit(X, y)


def test_what_a_model_cannot_read_is_refused_with_what_it_expects(tmp_path):
    X, y, _, _ = drawn(features=21)
    with pytest.raises(ValueError, match="reads 20 features and X has 21"):
        InContextRegressor().fit(X, y)
    X, y, _, _ = drawn(outputs=3)
    with pytest.raises(ValueError, match="has 2 outputs and y has 3"):
        InContextRegressor(compiled(outputs=2)).fit(X, y)
    with pytest.raises(ValueError, match="outside the domain"):
        InContextRegressor(compiled(), standardise=False).fit(1e3 * X, y[:, 0])
    with pytest.raises(ValueError, match="shipped one of gp, gp-1"):
        InContextRegressor("linear-21").fit(X, y)
    with pytest.raises(ValueError, match=r"no config\.json|no saved model"):
        InContextRegressor(tmp_path).fit(X, y)
    with pytest.raises(ValueError, match="a name, a directory or a loaded model"):
        InContextRegressor().set_params(model=3).fit(X, y)


def test_more_pairs_than_a_model_was_trained_with_are_said():
    X, y, _, _ = drawn(pairs=33)
    with pytest.warns(UserWarning, match="trained with up to 32 pairs in a prompt and gets 33"):
        InContextRegressor("linear").fit(X, y)


@pytest.mark.parametrize("name", zoo.names())
def test_rows_unlike_those_of_training_are_said(name):
    """With the figures; evenly spread rows are within the range of every shipped model once they are standardised."""
    rng = np.random.default_rng(0)
    features = min(8, zoo.load(name).recipe.task.features)
    X = rng.permuted(np.tile(np.linspace(-1, 1, 20)[:, None], features), axis=0)
    query, y = X[::-1], X.sum(1) + 0.1 * rng.normal(size=20)
    estimator = InContextRegressor(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(X, y).predict(query)
    with pytest.warns(OutsideTraining, match=r"Rows of X .*\|φ\| reaches [\d,.e+]+, and at most"):
        estimator.predict(1e3 * query)
    with pytest.warns(
        OutsideTraining, match=r"pairs .*\|φ\| reaches .*\|y\| reaches .* Try `standardise"
    ):
        InContextRegressor(name, standardise=False).fit(1e3 * X, 1e6 * y)


def test_a_compiled_model_says_nothing_of_training():
    X, y, query, _ = drawn()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        InContextRegressor(compiled(), standardise=False).fit(X, y).predict(1e3 * query)


def test_rows_whose_variance_is_no_number_are_refused():
    X, y, _, _ = drawn()
    for big in ((1e200 * X, y), (X, 1e200 * y)):
        with pytest.raises(ValueError, match="scale them down"):
            InContextRegressor().fit(*big)


def test_predictions_that_are_no_numbers_are_refused():
    X, y, query, _ = drawn(pairs=32)
    estimator = InContextRegressor("linear-attention").fit(X, y)
    with torch.no_grad():
        estimator.model_.transformer.unembed.W.fill_(1e308)
    with pytest.raises(ValueError, match="unlike those that it was made for"):
        estimator.predict(query)


def test_passes_are_bounded_and_change_nothing(monkeypatch):
    X, y, query, _ = drawn(outputs=3)
    estimator = InContextRegressor("linear").fit(X, y)
    whole, sizes = estimator.predict(np.tile(query, (5, 1))), []
    run = in_context.TrainedModel.run

    def counted(self, prompt):
        sizes.append(len(prompt) * self.cost(prompt))
        return run(self, prompt)

    monkeypatch.setattr(in_context.TrainedModel, "run", counted)
    monkeypatch.setattr(passes, "MOST_TOKENS", 100)
    found = estimator.predict(np.tile(query, (5, 1)))
    assert np.allclose(found, whole, rtol=1e-9)
    assert len(sizes) >= 6
    assert max(sizes) <= 100
