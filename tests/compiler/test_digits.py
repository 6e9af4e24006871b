"""Products by binary digits: exact at every place of 1/D, next to thresholds too, and certified."""

from math import log, sqrt

import numpy as np
import pytest
import torch
from numpy_executor import run
from promise import excess_of

from ridgeformer.compiler import Interpolated, SoftmaxAttention, compile
from ridgeformer.compiler.compile import backend_for
from ridgeformer.compiler.job import Job
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import Chebyshev, GradientDescent, Richardson
from ridgeformer.tasks import Prompt
from ridgeformer.theory import RowSumLaw, digit_error
from ridgeformer.types import Refusal

WIDTH, ROW_SUMS = 0.5, Richardson(precondition="row-sum")


def target(supports, tolerance=1e-2, digits=True, max_target=1.0):
    products = Interpolated(max_target, tolerance=tolerance, digits=digits)
    return SoftmaxAttention(1.0, supports, products)


def model_of(solver=ROW_SUMS, supports=2, steps=1, outputs=1, ridge=1.0, **options):
    return compile(
        solver, features=2, steps=steps, ridge=ridge, outputs=outputs, kernel=Gaussian(WIDTH),
        to=target(supports, **options),
    )  # fmt: skip


def digits_of(solver=ROW_SUMS, supports=2, steps=1, outputs=1, ridge=1.0, **options):
    job = Job(solver, Gaussian(WIDTH), 2, outputs, steps, ridge, "float64")
    return backend_for(job, target(supports, **options)).digits


def two_supports(row_sums, y):
    """Prompts of two supports whose row sums D = 2 + K₁₂ are the given ones."""
    apart = WIDTH * np.sqrt(-2 * np.log(row_sums - 2))
    phi = np.zeros((len(row_sums), 2, 2))
    phi[:, 0, 0], phi[:, 1, 0] = -apart / 2, apart / 2
    return Prompt(*(torch.from_numpy(x) for x in (phi, y, phi[:, :1])))


def near_thresholds(digits, rng, count):
    """1/D at multiples of half the last digit, and at the edges of all ramps around them."""
    last = 2.0**-digits
    index = rng.integers(int(0.34 / last), int(0.46 / last), count)
    coarse = (rng.integers(2, 6, count) * 2.0 ** -rng.integers(3, 5, count)) / last
    index = np.where((coarse * last > 0.34) & (coarse * last < 0.46), coarse, index)
    edges = [0, 1e-3, 1 / 32, 1 / 16, 0.0626, 1 / 8, 0.2, 0.23, 1 / 4, 0.251, 0.3, 7 / 16, 0.4376]
    offset = rng.choice(np.array(edges), count) * rng.choice([-1, 1], count)
    w = (index + rng.choice([0.0, 0.5], count) + offset) * last
    return np.clip(w, 0.34, 0.49)  # where two supports have such a row sum


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_a_product_is_good_to_a_quarter_of_the_last_digit_next_to_thresholds_too(tolerance):
    digits, rng = digits_of(tolerance=tolerance), np.random.default_rng(0)
    model = model_of(tolerance=tolerance)
    w = near_thresholds(digits, rng, 4000)
    y = rng.choice([-1.0, 1.0], (len(w), 2, 1)) * 2.0 ** rng.uniform(-20, 0, (len(w), 2, 1))
    prompt = two_supports(1 / w, y)
    alpha = trajectory(model, prompt, states=True).states["alpha"][1].numpy()
    lo, hi = 1 / 3, 1.5
    exact = 2 / (lo + hi) * w[:, None, None] * y
    allowed = 2 / (lo + hi) * (digit_error(digits) * np.abs(y) + 1e-14)
    ratio = np.abs(alpha - exact) / allowed
    assert ratio.max() <= 1
    assert ratio.max() > 0.99  # and no better than that


def test_there_are_as_many_digits_as_the_tolerance_asks_for():
    counts = [digits_of(tolerance=10.0**-t) for t in range(1, 9)]
    assert np.all(np.abs(np.diff(counts) - log(10, 2)) < 1)
    for tolerance in (1e-4, 1e-6):
        digits = digits_of(tolerance=tolerance, steps=5)
        config = model_of(tolerance=tolerance, steps=5).transformer.config
        assert (config.mlp, config.d_mlp) == ("relu", 4 * digits + 8)


CORNERS = ("equal", "pairs", "cluster", "rim", "slope", "thresholds", "spread")


def corner(kind, supports, rng, outputs=1):
    towards = rng.standard_normal((supports, 2))
    rim = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    signs = (-1.0) ** np.arange(supports)[:, None]
    slope = 0.5 / sqrt(supports)
    phi = {
        "equal": np.tile(rim[:1], (supports, 1)),
        "pairs": np.repeat(rim[: (supports + 1) // 2], 2, axis=0)[:supports],
        "cluster": 0.9 * rim[:1] + 1e-3 * towards,
        "rim": rim,
        "slope": np.c_[slope * signs, np.zeros(supports)],
        "thresholds": np.zeros((supports, 2)),
        "spread": rng.uniform(0, 1, (supports, 1)) * rim,
    }[kind]
    y = np.tile(signs, (1, outputs))
    query = np.concatenate([rim[:2], -rim[:1], np.array([[1.0, 0.0], [0.0, 0.0]])])
    if kind == "slope":
        phi[-1], y[-1] = (1.0, 0.0), 1.0  # where the fit at a support is largest
    elif kind == "thresholds":  # row sums k + 1 and powers of two: 1/D has a digit there
        few = 2 ** int(log(supports + 1, 2)) - 1
        phi[few:] = (1.0, 0.0)
    elif rng.uniform() < 0.5:
        y = rng.uniform(-1, 1, y.shape)
    return Prompt(*(torch.from_numpy(x[None].astype(float)) for x in (phi, y, query)))


def random_prompts(supports, count, rng, outputs=1):
    towards = rng.standard_normal((count, supports + 4, 2))
    towards /= np.linalg.norm(towards, axis=-1, keepdims=True)
    points = towards * np.minimum(1, rng.uniform(0, 1.5, (count, supports + 4, 1)))
    y = rng.uniform(-1, 1, (count, supports, outputs))
    y = np.where(rng.uniform(size=(count, 1, 1)) < 0.5, np.sign(y), y)
    return Prompt(*map(torch.from_numpy, (points[:, :supports], y, points[:, supports:])))


def check_certificate(model, supports, prompts, seed=0, outputs=1, followed=500):
    """Every step of the corners and of some random prompts, and the last step of all of them."""
    rng = np.random.default_rng(seed)
    drawn = [
        corner(kind, k, rng, outputs)
        for kind in CORNERS
        for k in sorted({supports, supports // 2, 1})
        if kind != "pairs" or k > 1
    ]
    least = min(followed, prompts)
    drawn += [random_prompts(supports, n, rng, outputs) for n in parts(least)]
    allowed, worst = model.certificate.absolute_error, 0.0
    for prompt in map(model_prompts(model), drawn):
        found = trajectory(model, prompt).predictions
        assert torch.isfinite(found).all()
        worst = max(worst, excess_of(model, prompt, found.numpy()).max())
    for count in parts(prompts - least):
        prompt = model_prompts(model)(random_prompts(supports, count, rng, outputs))
        last = reference(model, prompt).predictions[-1]
        worst = max(worst, float((model.predict(prompt) - last).abs().max()) / allowed)
    assert worst <= 1
    return worst


def parts(count, most=50):
    """A number of prompts in batches that memory holds."""
    return [min(most, count - first) for first in range(0, count, most)]


def model_prompts(model):
    """Prompts with targets of the largest size that the model serves."""
    return lambda p: Prompt(p.phi, model.certificate.max_target * p.y, p.phi_query)


def model_for(supports, error=1e-2):
    """The model of a domain with the depth that Richardson iteration asks for."""
    law = RowSumLaw(supports, 1.0, 4.0)
    return model_of(supports=supports, steps=law.steps(error), tolerance=error, max_target=4.0)


@pytest.mark.parametrize("supports", [8, 16])
def test_the_certificate_holds_on_random_prompts_and_corners(supports):
    model = model_for(supports)
    assert model.certificate.absolute_error <= 1e-2
    check_certificate(model, supports, 500 if supports == 8 else 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("supports", "neurons"), [(16, 68), (32, 76), (64, 80), (128, 88), (256, 92)]
)
def test_the_certificate_holds_on_500_prompts_of_many_supports(supports, neurons):
    model = model_for(supports)
    assert model.certificate.absolute_error <= 1e-2
    assert model.transformer.config.d_mlp == neurons
    check_certificate(model, supports, 500, followed=100)


@pytest.mark.parametrize("outputs", [1, 3])
def test_chebyshev_and_several_outputs(outputs):
    solver = Chebyshev(precondition="row-sum")
    model = model_of(solver, supports=12, steps=20, outputs=outputs, ridge=0.1, tolerance=1e-4)
    assert model.certificate.absolute_error <= 1e-4
    check_certificate(model, 12, 100, outputs=outputs)


def test_the_exponential_kernel_too(tmp_path):
    model = compile(
        ROW_SUMS, features=2, steps=6, ridge=0.5, kernel=Exponential(0.7), to=target(10)
    )
    check_certificate(model, 10, 50)
    prompt = random_prompts(10, 3, np.random.default_rng(1))
    model.save(tmp_path)
    found = run(tmp_path, *(x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query)))
    assert np.abs(found - model.predict(prompt).numpy()).max() < 1e-11


def test_queries_and_the_aggregator_hold_no_iterate_and_no_digits():
    model = model_of(supports=6, steps=3)
    prompt = random_prompts(6, 4, np.random.default_rng(2))
    first, second = (
        trajectory(model, Prompt(prompt.phi, prompt.y, queries), states=True).states["alpha"]
        for queries in (prompt.phi_query, -prompt.phi_query[:, :1])
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Interpolated(1.0, width=99, digits=True), "give `tolerance` with `digits=True`"),
        (lambda: model_of(GradientDescent()), 'use `precondition="row-sum"`, or leave `digits`'),
        (lambda: model_of(tolerance=1e-14), "is below the .* that 44 digits and round-off"),
        (
            lambda: compile(
                ROW_SUMS, features=2, ridge=1.0, kernel=Exponential(0.0335), to=target(8)
            ),
            r"The smallest 1/D in this domain needs 4\d digits, more than the 44",
        ),
        (lambda: model_of(Chebyshev()), "by which chebyshev does not multiply without row sums"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(Refusal, match=message):
        call()
