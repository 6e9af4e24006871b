"""Bounds whose constants nothing measured comes near, once more from the formulas of docs/theorems.md.

Units of round-off are large here, so that no term is lost beside another.
"""

from math import ceil, exp, log, log2, sqrt

import pytest
import torch

from ridgeformer import theory
from ridgeformer.solvers import Chebyshev, GradientDescent, HeavyBall, Richardson
from ridgeformer.tasks import Prompt
from ridgeformer.theory import set_up
from ridgeformer.types import Refusal

pytestmark = pytest.mark.portable

U = 2.0**-53


def gamma(m, u):
    return m * u / (1 - m * u)


def like(value):
    return pytest.approx(value, rel=1e-12, abs=0)


# The normaliser of a softmax head


@pytest.mark.parametrize(
    ("n", "s", "most", "rho", "u"), [(5, 4, 3.0, 12, 1e-3), (200, 11, 0.2, 3, 1e-4)]
)
def test_what_a_normaliser_rounds_is_that_of_the_theorem(n, s, most, rho, u):
    weighted = torch.tensor([0.7, 2.0], dtype=torch.float64)
    factor = (1 + gamma(n + 9, u)) * (1 + rho * u) * exp(gamma(s + 3, u) * most) - 1
    known = {"tokens": n, "roundings": s, "logit": most, "reciprocal": float(rho), "unit": u}
    found = theory.normaliser_round_off(weighted, **known)
    assert found.tolist() == [like(0.7 * factor), like(2.0 * factor)]


# Interpolated products over a whole domain


@pytest.mark.parametrize(
    ("count", "ridge", "target"), [(2, 0.1, 1.0), (16, 1.0, 4.0), (50, 3.0, 0.5)]
)
def test_the_law_of_widths_is_that_of_the_theorem(count, ridge, target):
    law = theory.RowSumLaw(count, ridge, target)
    a, b = ridge / (count + 1), 1 + ridge / 2
    eta, kappa = 2 / (a + b), (count + 1) * (1 + ridge / 2) / ridge
    rho, g = (kappa - 1) / (kappa + 1), min(2, sqrt(1 + 1.5 * eta * ridge))
    assert law.interval == (like(a), like(b))
    assert [law.step, law.condition, law.growth] == [like(eta), like(kappa), like(g)]
    assert law.range == like(target * (1 + 1.1 * g * sqrt(count)))
    steps, tolerance, spent = 7, 1e-3, 2e-4
    least = (1 - rho**steps) * sqrt((count + 1) / ridge)
    most = 2 * sqrt((count + 1) / ridge) + 2 * sqrt(1 + ridge / 2) / min(1, ridge)
    assert law.responses(steps) == (like(least), like(most))

    def intervals(theta, responses, allowed):
        spread = sqrt(count * (count + 1)) * law.range * (0.5 - 1 / (count + 1))
        return sqrt(theta * responses * spread / (2 * allowed))

    low, high = law.intervals(steps=steps, tolerance=tolerance, spent=spent)
    assert low == like(intervals(1, least, tolerance))
    assert high == like(1 + intervals(2**0.25, most, tolerance - spent))


@pytest.mark.parametrize(("n", "l", "squares"), [(40, 1, 2), (9, 3, 4), (64, 4, 1)])
def test_what_squares_round_is_that_of_the_theorem(n, l, squares):  # noqa: E741
    grid, terms = set_up.Layers(n, l, squares), squares * (n - 1) + 10
    if l == 1:
        factor = 7 * terms + 220
    else:
        factor = (1 + 4 / (n**2 - 1)) * (7 * terms + 8 * n + 560) + 1.5 * (l - 1) * terms
    assert grid.round_off == like(factor)
    x, a, b = (-0.3, 0.5), (-0.2, 0.9), (-1.0, 3.0)
    square = 0.8**2 / (4 * n ** (2 * l)) + factor * U * 0.5**2
    assert theory.square_error(x, grid) == like(square)
    s = 4.0 / 1.1
    m = s * 0.9 + 3.0
    rounded = factor * U * m**2 / (2 * s)
    assert theory.product_round_off(a, b, grid) == like(rounded)
    assert theory.product_error(a, b, grid) == like(1.1 * 4.0 / (4 * n ** (2 * l)) + rounded)


def test_products_of_a_weight_round_less_and_as_the_theorem_says():
    n, width = 30, 2 * 1.7
    terms, s = 2 * 29 + 10, width / (0.5 - 0.1)
    m = s * 0.5 + 1.7
    rounded = ((1.5 * terms + 92) * m + (2 * terms + 20) * width) * U * width / s
    assert theory.product_round_off((0.1, 0.5), (-1.7, 1.7), set_up.Layers(n)) == like(rounded)


def test_the_reciprocal_by_squares_is_that_of_the_theorem():
    n, l, most, weights = 50, 4, 40.0, 3e-6  # noqa: E741
    one, two, four = (set_up.Layers(n, l, q) for q in (1, 2, 4))
    guess, w, e, square = (0.98, 1.02 * most), (1 / most, 1.0), (-0.02, 0.02), (0.0, 0.0004)
    first = theory.product_error(guess, w, two) + weights + 4 * U * most
    products = sum(theory.product_error(guess, x, four) for x in (e, square))
    alone = 0.04**2 / (4 * n ** (2 * l)) + 0.02**2 * one.round_off * U
    rho = 1.1 * first + 4 * products + 4 * alone + 4 * (four.terms + 7) * U
    found = theory.squared_reciprocal_error(most, weights, one=one, two=two, four=four)
    assert found == like(rho)


# Fixed coefficients and conjugate gradients


def drawn_iterates(steps):
    generator = torch.Generator().manual_seed(2)
    phi, y, query = (
        torch.randn(1, *shape, generator=generator, dtype=torch.float64)
        for shape in ((5, 2), (5, 1), (1, 2))
    )
    interval = (0.7, 0.7 + 1.01 * float(torch.linalg.matrix_norm(phi, 2) ** 2))
    return Prompt(phi, y, query), interval, torch.randn(
        steps + 1, 1, 5, 1, generator=generator, dtype=torch.float64
    )  # fmt: skip


@pytest.mark.parametrize("solver", [GradientDescent(), Chebyshev()], ids=lambda s: s.name)
def test_what_a_step_rounds_is_that_of_the_theorem(solver):
    """Whatever iterates a model holds; u is of the size of v, so that neither hides the other."""
    steps, ridge = 4, 0.7
    prompt, (a, b), alphas = drawn_iterates(steps)
    phi, y, held = prompt.phi[0], prompt.y[0, :, 0], alphas[:, 0, :, 0]
    c, (k, p) = (a + b) / 2, phi.shape
    v = 20 * (sqrt(b / a) + 1) ** 2 / sqrt(b / a) * U
    u = 5 * v
    terms = theory.residual_round_off_terms(
        solver, prompt, alphas, ridge=ridge, interval=(a, b), unit=u
    )
    total = theory.residual_round_off_bound(
        solver, prompt, alphas, ridge=ridge, interval=(a, b), unit=u
    )
    for s in range(steps):
        now, before = float(held[s].norm()), float(held[s - 1].norm()) if s else 0.0
        products = float((phi.abs() @ (phi.mT.abs() @ held[s].abs())).norm())
        if solver.name == "gd" or s == 0:  # the first step reads no iterate but the last
            updates = (u * c + gamma(7, u) * ridge) * now
        elif s == steps - 1:
            updates = (gamma(7, u) + u) * c * (before + now)
        else:
            updates = (gamma(7, u) + u) * c * before + gamma(7, u) * (c - ridge) * now
        expected = {
            "targets": gamma(7, u) * float(y.norm()),
            "updates": updates,
            "mat-vecs": gamma(k + p + 7, u) * products,
            "weights": 2 * v * (float(y.norm()) + c * before + c * now + products),
        }
        found = {name: float(value[s, 0, 0]) for name, value in terms.items()}
        assert found == {name: like(value) for name, value in expected.items()}
        assert float(total[s, 0, 0]) == like(sum(expected.values()))


def test_what_a_pass_of_a_loop_rounds_is_that_of_the_theorem():
    steps, ridge = 4, 0.7
    prompt, (a, b), alphas = drawn_iterates(steps)
    held, c = alphas[:, 0, :, 0], (a + b) / 2
    v = 20 * (sqrt(b / a) + 1) ** 2 / sqrt(b / a) * U
    u, off = 1e-3, 0.0
    known = {"ridge": ridge, "interval": (a, b), "unit": u}
    terms = theory.residual_round_off_terms(HeavyBall(), prompt, alphas, looped=True, **known)
    plain = theory.residual_round_off_terms(HeavyBall(), prompt, alphas, **known)
    for s in range(steps):
        last = held[s - 1] if s else torch.zeros_like(held[0])
        now, before = float(held[s].norm()), float(last.norm())
        assert float(terms["updates"][s, 0, 0]) == like((gamma(7, u) + u) * c * (before + now))
        carried = (1 + gamma(7, u) + u + 2 * v) * c * off
        assert float(terms["carried"][s, 0, 0]) == pytest.approx(carried, rel=1e-12)
        off = u * now + u * (1 + u) * (float((held[s] - last).norm()) + off)
    for name in ("targets", "mat-vecs", "weights"):
        assert torch.equal(terms[name], plain[name])
    same = [
        theory.residual_round_off_bound(GradientDescent(), prompt, alphas, looped=looped, **known)
        for looped in (False, True)
    ]
    assert torch.equal(*same)
    with pytest.raises(Refusal, match="works out its weights"):
        theory.residual_round_off_bound(Chebyshev(), prompt, alphas, looped=True, **known)


def test_the_gap_of_cg_is_that_of_the_theorem():
    steps, u = 4, 1e-3
    prompt, _, alphas = drawn_iterates(steps)
    predictions = alphas[:, :, :1]
    phi, x, held = prompt.phi[0], prompt.phi_query[0, 0], alphas[:, 0, :, 0]
    k, p = phi.shape
    most = float((phi.abs() @ x.abs()).norm())
    found, gap = theory.cg_gap_bound(prompt, alphas, predictions, unit=u), 0.0
    for s in range(steps):
        assert float(found[s, 0, 0, 0]) == like(gap) if s else found[0] == 0
        size = float(held[s].norm())
        moved = (float((held[s + 1] - held[s]).norm()) + u * size) / (1 - gamma(2, u))
        shown = abs(float(predictions[s, 0, 0, 0]))
        gap += u * shown + most * (u * size + gamma(k + p + 4, u) * moved)
    assert float(found[steps, 0, 0, 0]) == like(gap)


# Errors relative to the reciprocal of the row sum, and products by digits


@pytest.mark.parametrize(("reach", "d"), [(0.5, 1), (2.0, 3), (4.0, 2)])
def test_the_mass_of_row_sums_is_the_least_of_the_theorem(reach, d):
    def formula(s):
        return (1 + s) ** d / (1 + 2 * s) ** (d / 2) * exp(reach**2 / (1 + s))

    found = theory.kernel_mass_bound(reach, d)
    least = min(formula(j / 1000) for j in range(200_000))
    assert least * (1 - 1e-6) <= found <= least * 1.001
    tried = [0.0, *(2.0 ** (j / 8) for j in range(-64, 65))]
    assert min(abs(found / formula(s) - 1) for s in tried) < 1e-12


@pytest.mark.parametrize(("k", "ridge", "q"), [(2, 3.0, 0.5), (16, 0.1, 1.0)])
def test_what_a_slope_costs_is_that_of_the_theorem(k, ridge, q):
    expected = 0.5 * sqrt(k / ridge) * q * exp(-(q**2) / 2 - ridge / (2 * k))
    assert theory.slope_bound(k, ridge, q) == like(expected)


@pytest.mark.parametrize("m", [4, 20, 44])
def test_what_digits_cost_is_that_of_the_theorem(m):
    part = 2.0**-m * (0.25 + 2.0 ** (-m - 7))
    assert theory.digit_error(m) == like(part)
    assert theory.digit_product_bound(m, 2.0) == like(2 * (part + 32 * U))
    for omega in (0.0, 1e-15):
        expected = omega * (3.0 / 2 + 5.0) + 32 * (m + 32) * U * (3.0 + (1 + 2 / 0.7) * 5.0)
        known = {"weights": omega, "least": 2.0, "alpha": 5.0, "b": 3.0, "step": 0.7}
        assert theory.digit_round_off_bound(m, **known) == like(expected)


@pytest.mark.parametrize(("count", "ridge", "target"), [(3, 0.2, 1.0), (40, 2.0, 5.0)])
def test_depth_and_digits_are_those_of_the_theorem(count, ridge, target):
    """T is just that, and M the next integer of a number that is a little below that of the theorem."""
    law, error, delta = theory.RowSumLaw(count, ridge, target), 1e-2, 1e-4
    kappa = (count + 1) * (1 + ridge / 2) / ridge
    steps = ceil(kappa / 2 * log(2 * target * sqrt(count / ridge) / error))
    assert law.steps_for(error / 2) == steps
    eta = 2 / (ridge / (count + 1) + 1 + ridge / 2)
    length = sqrt(count) * target * (1 + 1.1 * min(2, sqrt(1 + 1.5 * eta * ridge)))
    assert law.length == like(length)
    root = sqrt((count + 1) / ridge)
    rest = sqrt(1 + ridge / 2) / min(1, ridge)
    found = law.digits(steps=steps, tolerance=error / 2, spent=delta)
    factor = 2**0.25 * (1 + 2.0**-9)  # 4·2⁴ times the part that four digits leave; below 1.2
    exact = log2(factor * sqrt(count + 1) * length * (root + rest) / (error - 2 * delta))
    assert found[1] == like(1 + exact)
    assert factor < 1.2


# Reciprocals and dot products from heads


def test_what_a_reciprocal_rounds_is_that_of_the_theorem():
    for u in (2.0**-24, U):
        assert theory.reciprocal_round_off_bound(u) == like(3.3e-16 + 8.6 * u)


@pytest.mark.parametrize("looped", [False, True])
def test_what_an_update_rounds_is_that_of_the_theorem(looped):
    p, f, longest, least, kappa, u = 3, 1e-9, 1.5, 0.8, 30.0, 2.0**-24
    errors = theory.HeadPairErrors(4, p, 1e-3, 1, longest, unit=u, feature_error=f)
    twice = 2 if looped else 1
    plain = gamma(twice * 56, u)
    assert theory.update_round_off_bound(errors, condition=kappa, looped=looped) == like(plain)
    jacobi = gamma(twice * (56 + p), u) + 4 * f * (2 + f) * longest**2 / least
    known = {"condition": kappa, "looped": looped}
    assert theory.update_round_off_bound(errors, **known, least_scaling=least) == like(jacobi)
    delta = 40 * u if looped else 7 * U
    chebyshev = plain + delta * (sqrt(kappa) + 1) ** 2 / sqrt(kappa)
    assert theory.update_round_off_bound(errors, **known, chebyshev=True) == like(chebyshev)


def test_old_errors_add_up_to_what_the_theorem_says():
    tuned, ridge = (0.5, 20.0), 0.3
    c, root = sum(tuned) / 2, sqrt(40.0)
    theta, rate = (root - 1) / (root + 1), 19.5 / 20.5
    sums = {
        Richardson(): min(1000, 1 / (1 - rate)) / c,
        HeavyBall(): (1 + theta**2) / (c * (1 - theta) ** 2),
        Chebyshev(): 2 * (1 + theta**2) / (c * (1 - theta) ** 2),
    }
    for solver, total in sums.items():
        found = theory.long_sensitivity(
            solver, steps=1000, tuned=tuned, spectrum=tuned, offset=ridge
        )
        assert found.iterate == like(total)
        assert found.prediction == like(sqrt(20.0 - ridge) * total)
    few = theory.long_sensitivity(Richardson(), steps=3, tuned=tuned, spectrum=tuned)
    assert few.iterate == like(3 / c)
    outside = theory.long_sensitivity(Richardson(), steps=5, tuned=tuned, spectrum=(0.5, 30.0))
    assert outside.iterate == like(5 / c * (30.0 / c - 1) ** 5)
