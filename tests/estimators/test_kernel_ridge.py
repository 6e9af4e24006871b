"""`TransformerKernelRidge` against scikit-learn's KernelRidge, within what it promises."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge

import ridgeformer as rf
from ridgeformer.models.compiled import predicted_with_alpha
from ridgeformer.sklearn import TransformerKernelRidge, passes
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X[:70], y[:70], X[70:110]


def drawn(n=40, p=4, q=15, outputs=None):
    rng = np.random.default_rng(n + p)
    shape = (n,) if outputs is None else (n, outputs)
    return rng.normal(size=(n, p)), 1e3 * rng.normal(size=shape), rng.normal(size=(q, p))


def collinear():
    X, y, query = drawn()
    return np.hstack([X, X @ np.ones((4, 2))]), y, np.hstack([query, query @ np.ones((4, 2))])


def duplicated():
    X, y, query = drawn(n=12)
    return np.vstack([X, X, X[:5]]), np.concatenate([y, y + 1, y[:5]]), query


def constant():
    X, y, query = drawn()
    X, query = (np.hstack([v, np.full((len(v), 2), 3.0)]) for v in (X, query))
    return X, y, query


DATA = {
    "diabetes": diabetes,
    "random": drawn,
    "three outputs": lambda: drawn(outputs=3),
    "collinear": collinear,
    "duplicated rows": duplicated,
    "constant features": constant,
    "n < p": lambda: drawn(n=6, p=20),
    "n = 1": lambda: drawn(n=1, p=3),
    "zeros": lambda: (np.zeros((8, 2)), np.arange(8.0), np.ones((3, 2))),
    "zero targets": lambda: (drawn()[0], np.zeros(40), drawn()[2]),
}

KERNELS = {
    "linear": {},
    "polynomial": {"degree": 2, "gamma": 0.3, "coef0": 2.0},
    "rbf": {"gamma": 0.2},
    "exponential": {"gamma": 0.1},
}

SOLVERS = {
    "linear": [
        "cg",
        "chebyshev",
        "richardson",
        "gd",
        "heavy-ball",
        "newton",
        "gd++",
        "cg-predicted",
    ],
    "polynomial": ["cg", "newton"],
    "rbf": ["cg", "chebyshev", rf.Richardson("row-sum"), rf.ConjugateGradient("row-sum")],
    "exponential": ["cg", "heavy-ball"],
}

BESIDE_CG = ("diabetes", "duplicated rows")
"""The data of the default tests of other solvers; the slow tests have all."""

CASES = [
    pytest.param(
        kernel, solver, data, marks=[] if solver == "cg" or data in BESIDE_CG else pytest.mark.slow
    )
    for kernel, solvers in SOLVERS.items()
    for solver in solvers
    for data in DATA
]


def ridge_regression(estimator, X, y, query):
    """The same regression by scikit-learn, which has no kernel exp(γ⟨x, x'⟩) of its own."""
    options = {"alpha": estimator.alpha, "gamma": estimator.gamma}
    if estimator.kernel == "exponential":
        gamma = estimator.gamma
        options = {"alpha": estimator.alpha, "kernel": lambda a, b: np.exp(gamma * a @ b)}
    else:
        options |= {k: getattr(estimator, k) for k in ("kernel", "degree", "coef0")}
    return KernelRidge(**options).fit(X, y).predict(query)


@pytest.mark.parametrize(("kernel", "solver", "data"), CASES, ids=str)
def test_predictions_are_those_of_kernel_ridge(kernel, solver, data):
    """Within the certificate and the theorem's bound for the steps, and that within the tolerance."""
    X, y, query = DATA[data]()
    estimator = TransformerKernelRidge(
        10.0, kernel=kernel, solver=solver, tolerance=1e-4, **KERNELS[kernel]
    ).fit(X, y)
    for rows in (X, query):
        found, bound = estimator.predict(rows), estimator.error_bound(rows)
        exact = ridge_regression(estimator, X, y, rows)
        assert found.shape == bound.shape == exact.shape
        own = 1e-13 * (1 + np.abs(exact).max())  # of KernelRidge itself
        assert (np.abs(found - exact) <= bound + own).all()
    at_rows = estimator.error_bound(X)
    assert (at_rows <= 1.001e-4 * np.abs(y).max(0) + 1e-8 * np.abs(y).max()).all()


def test_the_bound_is_not_much_larger_than_the_error():
    X, y, query = drawn(n=60, p=6)
    for steps in (1, 2, 3):
        with pytest.warns(ConvergenceWarning, match="Raise `steps`"):
            estimator = TransformerKernelRidge(kernel="rbf", steps=steps).fit(X, y)
        error = np.abs(estimator.predict(query) - ridge_regression(estimator, X, y, query))
        bound = estimator.error_bound(query)
        assert estimator.n_steps_ == steps
        assert (error <= bound).all()
        assert error.max() > bound.max() / 100


@pytest.mark.parametrize("alpha", [2.0, 1e-2, 1e-4])
def test_round_off_of_cg_is_part_of_the_bound(alpha):
    """The residual is that of the coefficients in the transformer, which round-off sets apart from the numerics."""
    X, y, query = diabetes()
    estimator = TransformerKernelRidge(alpha, tolerance=1e-4).fit(X, y)
    own = 1e-11 * np.abs(y).max() / min(1.0, alpha)  # of KernelRidge itself, where κ is 300/α
    for rows in (X, query):
        apart = np.abs(estimator.predict(rows) - KernelRidge(alpha=alpha).fit(X, y).predict(rows))
        assert (apart <= estimator.error_bound(rows) + own).all()
    phi, targets = estimator._supports()
    prompt = rf.Prompt(phi, targets, phi)
    _, coefficients = predicted_with_alpha(estimator.model_, prompt, steps=estimator.n_steps_)
    held = coefficients[0].numpy()
    residual = np.linalg.norm(targets - phi @ (phi.T @ held) - alpha * held, axis=0)
    assert np.allclose(estimator._progress.residuals, residual, rtol=0.05)


def test_the_bound_is_that_of_the_pass_that_predicts():
    """Passes of other sizes sum in another order; CG on a kernel of rank 20 makes 1e-7 of it after 21 steps."""
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.ones(30)
    estimator = TransformerKernelRidge(kernel="polynomial").fit(X, y)
    exact = KernelRidge(kernel="polynomial").fit(X, y)
    for rows in (X, X[:1], X[:5], np.r_[X[:5], 0.7 * X[:3]], np.repeat(X, 40, 0)):
        apart = np.abs(estimator.predict(rows) - exact.predict(rows))
        assert (apart <= estimator.error_bound(rows)).all()


@pytest.mark.parametrize("solver", ["cg", "cg-predicted"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial"])
@pytest.mark.parametrize("rows", [1, 2000])
def test_coefficients_are_those_of_the_pass(kernel, solver, rows):
    if (kernel, solver) == ("rbf", "cg-predicted"):
        return  # it does not compile
    X, y, _ = drawn()
    estimator = TransformerKernelRidge(kernel=kernel, solver=solver, tolerance=1e-4).fit(X, y)
    phi, targets = estimator._supports()
    prompt = rf.Prompt(phi, targets, np.resize(phi, (rows, phi.shape[1])))
    steps = estimator.n_steps_ if estimator.certificate_.looped else None
    found, alpha = predicted_with_alpha(estimator.model_, prompt, steps=steps)
    assert found.equal(estimator.model_.predict(prompt, steps=steps))
    values = estimator._geometry.kernel(prompt.phi_query, prompt.phi)
    assert torch.allclose(values @ alpha, found, rtol=1e-11, atol=1e-11)


def test_parameters_that_are_set_anew_change_nothing_before_the_next_fit():
    X, y, query = drawn()
    estimator = TransformerKernelRidge(1e-2).fit(X, y)
    before = estimator.predict(query), estimator.error_bound(query)
    estimator.set_params(alpha=1e4, kernel="rbf", gamma=3.0, steps=1, solver="gd", tolerance=0.5)
    assert np.array_equal(estimator.predict(query), before[0])
    assert np.array_equal(estimator.error_bound(query), before[1])


def test_a_smaller_tolerance_takes_more_steps():
    X, y, _ = drawn()
    steps = [
        TransformerKernelRidge(solver="chebyshev", tolerance=t).fit(X, y).n_steps_
        for t in (1e-2, 1e-5, 1e-8)
    ]
    assert steps[0] < steps[1] < steps[2]


def test_what_predicts_is_the_transformer():
    """It holds what a change of its weights does to predictions, and answers as the saved model would."""
    X, y, query = drawn()
    estimator = TransformerKernelRidge(kernel="rbf").fit(X, y)
    before = estimator.predict(query)
    with torch.no_grad():
        estimator.model_.transformer.unembed.W.mul_(2)
    assert np.allclose(estimator.predict(query), 2 * before, rtol=1e-12)
    assert estimator.certificate_.kernel["name"] == "gaussian"
    assert isinstance(estimator.model_, rf.CompiledModel)


def test_defaults_are_those_of_kernel_ridge():
    X, y, query = drawn(p=5)
    for kernel in ("linear", "poly", "rbf"):
        estimator = TransformerKernelRidge(kernel=kernel, degree=2, tolerance=1e-8).fit(X, y)
        exact = KernelRidge(kernel=kernel, degree=2).fit(X, y).predict(query)
        assert np.abs(estimator.predict(query) - exact).max() < 1e-3  # of targets near 1,000
    ours, theirs = TransformerKernelRidge().get_params(), KernelRidge().get_params()
    assert {k: ours[k] for k in set(ours) & set(theirs)} == {
        k: theirs[k] for k in set(ours) & set(theirs)
    }


class State(NamedTuple):
    alpha: Any


@dataclass(frozen=True)
class TwoProducts(rf.Solver):
    """A solver of one's own, which nobody registered."""

    name = "two-products-of-a-test"

    def init(self, m):
        return State(m.zeros())

    def step(self, m, s, t):
        eta = 1 / m.interval("none")[1]
        r = m.target() - m.matvec(s.alpha)
        return State(s.alpha + eta * (2 * r - eta * m.matvec(r)))


def test_solvers_and_kernels_of_ones_own():
    X, y, query = drawn()
    projection = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]], dtype=torch.float64)
    estimator = TransformerKernelRidge(
        50.0, kernel=rf.Linear(projection), solver=TwoProducts(), tolerance=1e-3
    ).fit(X, y)
    U = projection.numpy().T
    exact = KernelRidge(alpha=50.0).fit(X @ U, y).predict(query @ U)
    assert (np.abs(estimator.predict(query) - exact) <= estimator.error_bound(query)).all()
    assert estimator.error_bound(X).max() <= 1.001e-3 * np.abs(y).max()


@pytest.mark.parametrize("unit", [2.0**-460, 2.0**500])
def test_units_of_targets_do_not_matter(unit):
    X, y, query = drawn()
    first, second = (
        TransformerKernelRidge(kernel="rbf").fit(X, c * y).predict(query) / c for c in (1.0, unit)
    )
    assert np.array_equal(first, second)


@pytest.mark.parametrize("unit", [5e-324, 1e-310, 1e300])
def test_targets_at_the_ends_of_the_range_of_float64_are_refused(unit):
    """Predictions there would be rounded to few digits, or be infinite, whatever the bound says."""
    X, y, _ = drawn()
    with pytest.raises(Refusal, match="too near the ends of the range of float64"):
        TransformerKernelRidge().fit(X, unit * np.sign(y))


@pytest.mark.filterwarnings(
    "error::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("alpha", [1e-10, 1e-3])
def test_the_largest_targets_give_finite_numbers_at_the_farthest_queries(alpha):
    X, y, query = drawn()
    X[:, 3] = X[:, 2] + 1e-6 * X[:, 3]
    estimator = TransformerKernelRidge(alpha).fit(X, 1e290 * np.sign(y))
    far = 2e8 * alpha**0.5 * query / np.linalg.norm(query, axis=1, keepdims=True)
    assert np.isfinite([estimator.predict(far), estimator.error_bound(far)]).all()


# ------------------------------------------------------------------ queries far away


def test_far_queries_under_the_gaussian_kernel_get_zero():
    X, y, query = drawn()
    far = 1e6 * (query / np.linalg.norm(query, axis=1, keepdims=True))
    estimator = TransformerKernelRidge(kernel="rbf").fit(X + 50, y)  # centred: norms stay small
    assert estimator.certificate_.max_norm < 100
    assert np.abs(estimator.predict(far)).max() < 1e-12
    mixed = estimator.predict(np.vstack([query + 50, far]))
    assert np.allclose(mixed[: len(query)], estimator.predict(query + 50), rtol=1e-9)


def test_far_queries_under_dot_products():
    X, y, query = drawn()
    estimator = TransformerKernelRidge(tolerance=1e-9).fit(X, y)
    near, far = estimator.predict(query), estimator.predict(1e5 * query)
    assert np.allclose(far, 1e5 * near, rtol=1e-9)
    with pytest.raises(ValueError, match="outside the domain"):
        estimator.predict(1e9 * query)


def test_rows_too_long_for_the_exponential_kernel_are_refused():
    X, y, _ = drawn()
    estimator = TransformerKernelRidge(kernel="exponential").fit(X, y)
    longest = np.linalg.norm(X, axis=1).max()
    estimator.predict(1.9 * X[:1] * longest / np.linalg.norm(X[0]))
    with pytest.raises(ValueError, match="longest training row"):
        estimator.predict(2.1 * X[:1] * longest / np.linalg.norm(X[0]))


# ------------------------------------------------------------------ refusals and warnings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": np.ones(2)}, "alpha"),
        ({"tolerance": 0}, "tolerance"),
        ({"steps": 0}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"kernel": "laplacian"}, "choose from linear"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma"),
        ({"kernel": "rbf", "gamma": 1e9}, "In terms of `gamma`"),
        ({"kernel": "poly", "degree": 7}, "degree"),
        ({"solver": "cgg"}, "cg"),
        ({"solver": 3}, "solver"),
        ({"solver": "nadaraya-watson"}, "averages"),
        ({"solver": "block-cg"}, "block-cg"),
        ({"kernel": "rbf", "solver": "newton"}, "newton"),
        ({"solver": rf.Richardson(interval=(1.0, 1.5))}, "interval"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_are_refused(options, said):
    X, y, _ = drawn()
    with pytest.raises(ValueError, match=said):
        TransformerKernelRidge().set_params(**options).fit(X, y)


@pytest.mark.parametrize("where", ["X", "y"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(where, value):
    X, y, _ = drawn()
    (X if where == "X" else y)[3] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        TransformerKernelRidge().fit(X, y)


def test_shapes_that_do_not_fit_are_refused():
    X, y, query = drawn()
    with pytest.raises(NotFittedError):
        TransformerKernelRidge().predict(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TransformerKernelRidge().fit(X, y[:-1])
    with pytest.raises(ValueError, match="minimum of 1"):
        TransformerKernelRidge().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="expecting 4 features"):
        TransformerKernelRidge().fit(X, y).predict(query[:, :2])
    for kernel in ("linear", "poly", "rbf", "exponential"):
        with pytest.raises(ValueError, match=r"range of float|beyond"):
            TransformerKernelRidge(kernel=kernel, gamma=1.0).fit(1e200 * X, y)


def test_what_float64_cannot_reach_is_said():
    X, y, query = drawn(n=12, p=3)
    with pytest.warns(ConvergenceWarning, match="raise `alpha`"):
        estimator = TransformerKernelRidge(1e-9, solver="gd++", tolerance=1e-12).fit(1e2 * X, y)
    assert np.isfinite(estimator.predict(query)).all()
    assert (estimator.error_bound(X) > 1e-12 * np.abs(y).max()).any()


# ------------------------------------------------------------------ passes


def test_passes_are_bounded_and_change_nothing(monkeypatch):
    X, y, _ = drawn()
    queries = np.random.default_rng(1).normal(size=(500, 4))
    estimator = TransformerKernelRidge(kernel="rbf").fit(X, y)
    whole, sizes = estimator.predict(queries), []
    predict = rf.CompiledModel.predict

    def counted(self, prompt, steps=None):
        sizes.append(len(prompt) * self.cost(prompt))
        return predict(self, prompt, steps)

    monkeypatch.setattr(rf.CompiledModel, "predict", counted)
    monkeypatch.setattr(passes, "MOST_TOKENS", 128)
    assert np.allclose(estimator.predict(queries), whole, rtol=1e-9)
    assert len(sizes) > 4
    assert max(sizes) <= 128
