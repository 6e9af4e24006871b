"""Dot products from softmax heads, to the order that their number buys; polynomial kernels."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from ridgeformer.compiler import Exact, HeadPairs, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Polynomial
from ridgeformer.models import trajectory
from ridgeformer.solvers import krr, make_solver, solve
from ridgeformer.tasks import Prompt
from ridgeformer.theory import cg_prediction_bound, extrapolation_weights

pytestmark = pytest.mark.usefixtures("unchecked")

K, P = 64, 16
ROUND_OFF = 1e-14
"""Of a mat-vec, times 1/ε: the heads' difference is divided by ε."""
CONSTANT = 0.5
"""C in |f_t − f*| ≤ CG's bound + C·t·ε_mv·max|f*|: the largest C that these prompts need is 0.13,
measured as the excess over the bound, over t, ε and heads, divided by t·ε_mv·max|f*|."""


def prompts(batch=4, supports=K, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((batch, supports + 4, P)) / P**0.5
    points /= np.maximum(1, np.linalg.norm(points, axis=-1, keepdims=True))
    y = rng.standard_normal((batch, supports, 1))
    return Prompt(*map(torch.from_numpy, (points[:, :supports], y, points[:, supports:])))


def compiled(name, steps, heads=8, epsilon=None, **options):
    return compile(
        make_solver(name), features=P, steps=steps, ridge=1.0,
        to=SoftmaxAttention(1.0, K, dot_products=HeadPairs(heads, epsilon)), **options,
    )  # fmt: skip


def matvec_error(heads, epsilon, prompt):
    """Relative to the largest entry: one step of gd from 0 gives α = ηy, and its prediction is K α."""
    model = compiled("gd", 1, heads, epsilon)
    config = model.transformer.config
    assert config.n_heads in (heads, heads + 1), "the heads, and perhaps one for means"
    expected = prompt.phi_query @ (prompt.phi.mT @ prompt.y) * 2 / (1 + 1 + K)
    return float((model.predict(prompt) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("heads", [2, 4, 6, 8])
def test_each_pair_of_heads_buys_two_orders(heads, record_property):
    prompt = prompts()
    scales = np.array([0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.01, 0.003])
    errors = np.array([matvec_error(heads, scale, prompt) for scale in scales])
    clear = errors > 10 * ROUND_OFF / scales
    slope = np.polyfit(np.log(scales[clear]), np.log(errors[clear]), 1)[0]
    record_property("slope", f"{slope:.3f} from {clear.sum()} scales, best {errors.min():.1e}")
    assert clear.sum() >= 4
    assert abs(slope - heads) < 0.3, slope
    assert (errors[~clear] < 100 * ROUND_OFF / scales[~clear]).all(), "then round-off is the floor"
    if heads == 8:
        assert errors.min() <= 1e-12
        assert matvec_error(8, None, prompt) <= 1e-12, "the scale that is chosen is near the best"


def test_the_weights_cancel_odd_powers():
    for pairs in (1, 2, 3, 4, 6):
        c = np.arange(1, pairs + 1)
        weights = extrapolation_weights(pairs)
        sums = [float((weights * c ** (2 * j + 1.0)).sum()) for j in range(pairs)]
        np.testing.assert_allclose(sums, np.eye(pairs)[0], atol=1e-9)


def test_cg_with_inexact_products_keeps_its_bound_up_to_their_error(record_property):
    prompt, steps = prompts(), 10
    bound = cg_prediction_bound(prompt, ridge=1.0, steps=steps)
    exact = krr(prompt, ridge=1.0)
    scale, needed = float(exact.abs().max()), 0.0
    for heads, epsilon in ((2, 0.4), (2, 0.1), (2, 0.02), (4, 0.3), (4, 0.05)):
        error = matvec_error(heads, epsilon, prompt)
        found = trajectory(compiled("cg", steps, heads, epsilon), prompt).predictions
        t = torch.arange(steps + 1)[:, None, None, None]
        apart = (found - exact).abs()
        assert (apart <= bound + CONSTANT * t * error * scale + 1e-12).all(), (heads, epsilon)
        excess = (apart - bound)[1:] / (t[1:] * error * scale)
        needed = max(needed, float(excess.max()))
        # What is left at the end is the products' error, not the iteration's.
        assert float(apart[-1].max()) > 1e-2 * error * scale
    record_property("constant", f"{needed:.2f}")
    assert needed > CONSTANT / 10, "the constant is not idle"


@pytest.mark.parametrize(
    ("name", "precondition"), [("cg", "jacobi"), ("chebyshev", "jacobi"), ("heavy-ball", "none")]
)
def test_eight_heads_run_solvers_to_nine_digits(name, precondition):
    for supports in (1, 20, K):
        prompt = prompts(supports=supports, seed=supports)
        solver = make_solver(name, precondition)
        # CG's error cannot be promised for five steps, and a scale of one's own does without a promise.
        pairs = HeadPairs(epsilon=0.02) if name == "cg" else None
        to = SoftmaxAttention(1.0, K, dot_products=pairs)
        model = compile(solver, features=P, steps=5, ridge=1.0, to=to)
        assert (model.certificate.relative_error is None) == (name == "cg")
        expected = solve(solver, prompt, steps=5, ridge=1.0, max_eigenvalue=float(K)).predictions
        apart = float((trajectory(model, prompt).predictions - expected).abs().max())
        assert apart < 1e-9 * float(expected.abs().max())


def test_single_precision_keeps_its_promise():
    prompt = prompts()
    model = compiled("gd", 6, dtype="float32")
    most = model.certificate.max_eigenvalue
    exact = solve(make_solver("gd"), prompt, steps=6, ridge=1.0, max_eigenvalue=most).predictions
    found = trajectory(model, prompt.to(torch.float32)).predictions
    apart = float((found - exact).abs().max() / exact.abs().max())
    assert apart < min(1e-3, model.certificate.relative_error)


# ---------------------------------------------------------------------- polynomial kernels


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("degree", [2, 3])
def test_polynomial_kernels(degree, offset, causal):
    kernel, ridge, steps = Polynomial(degree, offset), 0.5, 14
    rng = np.random.default_rng(degree)
    phi, query = rng.uniform(-1, 1, (3, 12, 2)), rng.uniform(-1, 1, (3, 4, 2))
    prompt = Prompt(*map(torch.from_numpy, (phi, rng.standard_normal((3, 12, 2)), query)))
    top = float(torch.linalg.eigvalsh(kernel(prompt.phi, prompt.phi)).max())
    model = compile(
        make_solver("cg"), features=2, outputs=2, steps=steps, ridge=ridge, kernel=kernel,
        to=LinearAttention(top, Exact(), causal),
    )  # fmt: skip
    found = trajectory(model, prompt).predictions
    expected = solve(make_solver("cg"), prompt, steps=steps, ridge=ridge, kernel=kernel).predictions
    scale = float(expected.abs().max())
    if not causal:  # later iterates differ by more, as round-off grows
        assert float((found - expected)[:5].abs().max()) < 1e-9 * scale
    for index in range(3):
        sklearn = KernelRidge(kernel="poly", gamma=1, degree=degree, coef0=offset, alpha=ridge)
        exact = sklearn.fit(phi[index], prompt.y[index].numpy()).predict(query[index])
        assert np.abs(found[-1, index].numpy() - exact).max() < 1e-8 * scale
