"""The width law: what is proved of it, on certified widths, on single prompts and on hard ones."""

from math import log

import numpy as np
import pytest
import torch

from ridgeformer import theory
from ridgeformer.compiler import Interpolated, SoftmaxAttention, compile
from ridgeformer.compiler.compile import backend_for
from ridgeformer.compiler.job import Job
from ridgeformer.kernels import Gaussian
from ridgeformer.solvers import Richardson, krr
from ridgeformer.tasks import Prompt
from ridgeformer.theory import set_up

KERNEL, RIDGE, TARGET, ERROR = Gaussian(0.5), 1.0, 4.0, 1e-2
SOLVER = Richardson(precondition="row-sum")
COUNTS = (8, 16, 32, 64, 128, 256)


def backend(supports, *, digits, ridge=RIDGE, target=TARGET, error=ERROR):
    steps = theory.RowSumLaw(supports, ridge, target).steps(error)
    job = Job(SOLVER, KERNEL, 2, 1, steps, ridge, "float64")
    products = Interpolated(target, tolerance=error, digits=digits)
    return backend_for(job, SoftmaxAttention(1.0, supports, products))


def exponent(widths):
    return np.polyfit(np.log(COUNTS), np.log(widths), 1)[0]


def test_the_width_of_interpolated_products_is_linear_in_the_supports():
    widths = [backend(k, digits=False).neurons for k in COUNTS]
    assert widths[:5] == [284, 566, 1120, 2212, 4376]
    assert abs(exponent(widths) - 1) < 0.1


def test_the_width_of_products_by_digits_is_logarithmic_in_the_supports():
    widths = [backend(k, digits=True).neurons for k in COUNTS]
    laws = [theory.RowSumLaw(k, RIDGE, TARGET) for k in COUNTS]
    proved = [law.digits(steps=law.steps(ERROR), tolerance=ERROR) for law in laws]
    assert exponent(widths) < 0.2
    for end in (0, 1):
        assert abs(exponent(widths) - exponent([4 * m[end] + 8 for m in proved])) < 0.1
    assert widths[4] <= 1094  # a quarter of 4,376
    assert widths[4] < 100


@pytest.mark.parametrize("ridge", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("supports", [2, 8, pytest.param(48, marks=pytest.mark.slow)])
def test_sizes_are_between_both_bounds(supports, ridge):
    law = theory.RowSumLaw(supports, ridge, TARGET)
    steps = law.steps(ERROR)
    squares, digits = (backend(supports, digits=d, ridge=ridge) for d in (False, True))
    spent = squares.budget.spent(squares.grid), digits.digit_budget.spent(digits.digits)
    for found, (low, high) in (
        (squares.grid.intervals, law.intervals(steps=steps, tolerance=ERROR, spent=spent[0])),
        (digits.digits, law.digits(steps=steps, tolerance=ERROR, spent=spent[1])),
    ):
        assert low <= found <= high
    low, high = law.responses(steps)
    assert low <= squares.budget.response.prediction <= 2**0.25 * high
    assert squares.budget.second[1] == pytest.approx(law.range)
    assert digits.digit_budget.length == pytest.approx(law.length)


@pytest.mark.parametrize("supports", [8, 16])
def test_compiled_models_have_the_planned_width_and_depth(supports):
    planned = backend(supports, digits=True)
    job = planned.job
    products = Interpolated(TARGET, tolerance=ERROR, digits=True)
    model = compile(
        SOLVER, features=2, steps=job.steps, ridge=RIDGE, kernel=KERNEL,
        to=SoftmaxAttention(1.0, supports, products),
    )  # fmt: skip
    config = model.transformer.config
    assert config.d_mlp == planned.neurons == 4 * planned.digits + 8
    assert config.n_layers == 2 * job.steps + 2 * planned.digits + 57


def disk(rng, prompts, supports, radius=1.0):
    angle = rng.uniform(0, 2 * np.pi, (prompts, supports))
    length = radius * np.sqrt(rng.uniform(0, 1, (prompts, supports)))
    return np.stack([length * np.cos(angle), length * np.sin(angle)], -1)


def prompt_of(phi, query, y=None):
    y = np.zeros((*phi.shape[:2], 1)) if y is None else y
    return Prompt(*(torch.from_numpy(np.ascontiguousarray(x)) for x in (phi, y, query)))


@pytest.mark.parametrize("features", [1, 2, 3])
def test_the_mass_of_row_sums_is_bounded_whatever_the_number_of_supports(features):
    rng, worst = np.random.default_rng(0), 0.0
    bound = theory.kernel_mass_bound(2.0, features)
    for supports in (1, 4, 30, 300, 1000):
        towards = rng.standard_normal((1, supports, features))
        towards /= np.linalg.norm(towards, axis=-1, keepdims=True)
        for length in (rng.uniform(0, 1, (1, supports, 1)), 1.0):
            phi = length * towards
            sums = theory.row_sums(prompt_of(phi, phi[:, :1]), KERNEL) - 1
            worst = max(worst, float((1 / sums).sum()))
    assert 0.3 * bound < worst <= bound


def slope_prompt(supports, ridge, query=0.5):
    """Half of the supports at each side of 0, so near that ridge hardly resolves their slope."""
    r = 0.5 * np.sqrt(ridge / supports)
    phi = np.zeros((1, supports, 2))
    phi[0, :, 0] = r * (-1.0) ** np.arange(supports)
    return prompt_of(phi, np.array([[[query, 0.0]]]), np.sign(phi[..., :1]))


@pytest.mark.parametrize("ridge", [0.1, 1.0])
def test_a_slope_makes_the_dual_weights_of_a_query_grow_as_the_root_of_the_supports(ridge):
    grown = []
    for supports in (16, 64, 256, 1024):
        prompt = slope_prompt(supports, ridge)
        a = theory.gram(prompt, KERNEL) + ridge * torch.eye(supports, dtype=torch.float64)
        weights = torch.linalg.solve(a, theory.cross(prompt, KERNEL).mT)[0, :, 0]
        bound = theory.slope_bound(supports, ridge, 1.0)
        grown.append(float(weights.abs().sum()))
        assert bound <= grown[-1] <= 4 * bound
        scaled = (theory.row_sums(prompt, KERNEL)[0] * weights).abs().sum()
        assert float(scaled) >= (supports + 1 - ridge) * bound
        assert float(krr(prompt, ridge=ridge, kernel=KERNEL)) >= bound  # |f*| with |y| = 1
    assert np.polyfit(np.log([64, 256, 1024]), np.log(grown[1:]), 1)[0] == pytest.approx(
        0.5, abs=0.05
    )


def test_relative_errors_reach_a_prediction_as_bounded_and_with_the_worst_signs_just_so():
    rng, supports, steps, size = np.random.default_rng(1), 12, 40, 1e-3
    points = disk(rng, 5, supports + 3)
    prompt = prompt_of(
        points[:, :supports], points[:, supports:], rng.normal(size=(5, supports, 1))
    )
    law = theory.RowSumLaw(supports, RIDGE)
    bound = size * theory.relative_responses(
        prompt, KERNEL, ridge=RIDGE, step=law.step, steps=steps
    )
    sums = theory.row_sums(prompt, KERNEL)[..., None]
    a = theory.gram(prompt, KERNEL) + RIDGE * torch.eye(supports, dtype=torch.float64)
    reading = theory.cross(prompt, KERNEL)
    backward = [reading.mT]
    for _ in range(steps - 1):
        backward.append(backward[-1] - law.step * a @ (backward[-1] / sums))
    for q in range(3):
        error = torch.zeros(5, supports, 1, dtype=torch.float64)
        for s in range(steps):
            planted = size / sums * backward[steps - 1 - s][..., q : q + 1].sign()
            error = error - law.step * (a @ error) / sums + law.step * planted
        moved = (reading[:, q : q + 1] @ error)[:, 0, 0]
        torch.testing.assert_close(moved, bound[:, q], rtol=1e-10, atol=0)


def test_digits_grow_with_the_logarithm_of_the_tolerance():
    assert theory.digits_for(reach=1.0, unit=1.0, tolerance=0.25) == 1
    for exponent_of_two in range(3, 30):
        m = theory.digits_for(reach=1.0, unit=1.0, tolerance=2.0**-exponent_of_two)
        assert m in (exponent_of_two - 1, exponent_of_two - 2)
    assert theory.unit_of_digits(0.5) == 1.0
    assert theory.unit_of_digits(0.3) == 0.5
    assert log(theory.digit_product_bound(40, 1.0), 2) == pytest.approx(-42, abs=0.1)


def test_what_heads_round_is_that_of_the_theorem():
    """δ and ω of (iv) once more: interpolation alone is measured where it is far above them."""
    u = theory.UNIT["float64"]

    def gamma(m):
        return m * u / (1 - m * u)

    norms, largest, p, off = 1e-13, 7.0, 3, 2e-14
    sums = gamma(p + 9) * (1 + off) ** 2 * largest
    delta = 2 * norms + off * (4 + off) * largest + sums
    assert set_up.logit_error(largest, norms, p, off) == pytest.approx(delta, rel=1e-12, abs=0)
    for supports in (1, 100):
        omega = (1 + gamma(4 * supports + 10)) * np.exp(1e-3) - 1
        found = set_up.weight_error(1e-3, supports)
        assert found == pytest.approx(omega, rel=1e-12, abs=0)
        alone = set_up.weight_error(0.0, supports)
        assert alone == pytest.approx(gamma(4 * supports + 10), rel=1e-12, abs=0)
