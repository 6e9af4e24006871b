"""The estimators in scikit-learn's tools, with pandas, copied, and written to files."""

import io
import pickle
import pickletools
import re
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ridgeformer as rf
from ridgeformer.models import zoo
from ridgeformer.sklearn import InContextRegressor, TransformerKernelRidge

pytestmark = pytest.mark.usefixtures("unchecked")

X, Y = make_regression(32, 3, n_targets=2, noise=1.0, random_state=0)
y = Y[:, 0]


def loaded():
    return InContextRegressor(zoo.load("linear-attention"))


def with_own_kernel():
    return TransformerKernelRidge(kernel=rf.Gaussian(2.0), solver=rf.Chebyshev("row-sum"))


ESTIMATORS = [
    TransformerKernelRidge,
    lambda: TransformerKernelRidge(kernel="rbf", solver="heavy-ball", tolerance=1e-3),
    with_own_kernel,
    InContextRegressor,
    loaded,
]


@pytest.mark.parametrize("make", ESTIMATORS)
def test_stored_estimators_predict_the_same_bits(make):
    """What is stored has safetensors and JSON in place of modules."""
    estimator = make().fit(X, Y)
    data = pickle.dumps(estimator)
    named = {str(argument) for _, argument, _ in pickletools.genops(data) if argument is not None}
    assert not any(word.startswith(("torch", "ridgeformer.transformer")) for word in named)
    again = pickle.loads(data)
    assert np.array_equal(again.predict(X), estimator.predict(X))
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    assert np.array_equal(joblib.load(file).predict(X), estimator.predict(X))
    assert np.array_equal(clone(again).fit(X, Y).predict(X), estimator.predict(X))


@pytest.mark.parametrize("make", ESTIMATORS)
def test_shapes_of_targets(make):
    estimator = make()
    assert estimator.fit(X, y).predict(X[:7]).shape == (7,)
    assert estimator.fit(X, y[:, None]).predict(X[:7]).shape == (7, 1)
    assert estimator.fit(X, Y).predict(X[:7]).shape == (7, 2)
    assert estimator.score(X, Y) > 0.9


@pytest.mark.parametrize("make", [TransformerKernelRidge, InContextRegressor])
def test_pandas(make):
    frame = pd.DataFrame(X, columns=["age", "bmi", "pressure"], index=range(100, 132))
    targets = pd.DataFrame(Y, columns=["a", "b"], index=frame.index)
    estimator = make().fit(frame, targets)
    plain = make().fit(X, Y)
    assert list(estimator.feature_names_in_) == ["age", "bmi", "pressure"]
    assert estimator.n_features_in_ == 3
    assert np.array_equal(estimator.predict(frame), plain.predict(X))
    series = make().fit(frame, targets["a"])
    assert np.array_equal(series.predict(frame), make().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame.rename(columns={"bmi": "other"}))
    with pytest.warns(UserWarning, match="valid feature names"):
        estimator.predict(X)
    mixed = frame.astype({"age": "float32", "bmi": "Float64"})
    assert np.allclose(make().fit(mixed, targets).predict(mixed), plain.predict(X), rtol=1e-4)


def test_other_processes():
    """A search on two processes finds what one finds; fitted estimators predict there as here."""
    pipeline = make_pipeline(StandardScaler(), TransformerKernelRidge(solver="newton"))
    grid = {"transformerkernelridge__alpha": [0.1, 1e3]}
    alone, search = (
        GridSearchCV(pipeline, grid, cv=3, n_jobs=n).fit(X, y - y.mean()) for n in (1, 2)
    )
    assert search.best_params_ == {"transformerkernelridge__alpha": 0.1}
    assert search.best_score_ > 0.8
    score = "mean_test_score"
    assert np.allclose(alone.cv_results_[score], search.cv_results_[score], rtol=1e-6)
    fitted = [make().fit(X[:20], y[:20]) for make in ESTIMATORS]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(one.predict)(X) for one in fitted)
    for one, there in zip(fitted, found, strict=True):
        # A process of its own may use other threads, and so add in another order.
        assert np.allclose(there, one.predict(X), rtol=1e-6, atol=1e-6)


def test_cross_validation_and_an_intercept():
    pipeline = make_pipeline(StandardScaler(), TransformerKernelRidge(0.1))
    estimator = TransformedTargetRegressor(pipeline, transformer=StandardScaler())
    assert cross_val_score(estimator, X, y + 1e4, cv=3).min() > 0.8
    models = {"model": ["linear", "linear-attention"]}
    search = GridSearchCV(InContextRegressor(), models, cv=3).fit(X, Y)
    assert (search.cv_results_["mean_test_score"] > 0.8).all()


def test_clones_have_the_parameters_and_nothing_else():
    for make in ESTIMATORS:
        estimator = make().fit(X, y)
        copy = clone(estimator)
        assert not hasattr(copy, "model_")
        assert set(copy.get_params()) == set(estimator.get_params())
        assert type(copy).__name__ in repr(copy)


def test_the_page_runs():
    text = (Path(__file__).parents[2] / "docs/scikit-learn.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names = {}
    exec(code, names)
    X = names["X"]
    found, exact = (names[name].predict(X) for name in ("ours", "exact"))
    assert (np.abs(found - exact) <= names["ours"].error_bound(X)).all()
