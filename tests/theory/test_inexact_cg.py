"""Conjugate gradients with planted errors in products, scalars and updates, against bounds on every iterate."""

import numpy as np
import pytest

from ridgeformer.experiments.theorems.inexact import chain, turning_error
from ridgeformer.theory import InexactCG, inexact_energy_bound

pytestmark = pytest.mark.portable


def cg(values, y, steps, product=lambda s, v: 0.0, scalar=lambda: 0.0, entries=lambda n: 0.0):
    """Iterates in the eigenbasis; `product` errs in A p, `scalar` relatively, `entries` in every entry."""
    x, r = np.zeros_like(y), y * (1 + entries(len(y)))
    p, found = r * (1 + entries(len(y))), [np.zeros_like(y)]
    rho = (r @ r) * (1 + scalar())
    for s in range(steps):
        q = values * p + product(s, p)
        curvature = p @ q + scalar() * np.linalg.norm(p) * np.linalg.norm(q)
        gamma = rho / curvature * (1 + scalar())
        x = (x + gamma * p * (1 + (s + 1) * scalar())) * (1 + entries(len(y)))
        r = (r - gamma * q) * (1 + entries(len(y)))
        new = (r @ r) * (1 + scalar())
        p = (r + new / rho * (1 + scalar()) * p) * (1 + entries(len(y)))
        rho = new
        found.append(x)
    return np.array(found)


def systems(rng, kappa):
    """Spectra in [1, κ] and targets, some of which converge long before the last step."""
    for size in (2, 3, 6, 12):
        for spread in (0.0, 1.0, 4.0):
            values = np.exp(np.log(kappa) * rng.uniform(size=size))
            values[:2] = 1.0, kappa
            yield values, rng.standard_normal(size) * 10.0 ** (-spread * np.arange(size))


def random_error(rng, values, size):
    """E_s with ‖A^(−1/2)E_sA^(−1/2)‖ = ε, another one at every step, or a symmetric one for all."""
    root, kept = np.sqrt(values), {}
    fixed = rng.random() < 0.5

    def product(s, v):
        key = 0 if fixed else s
        if key not in kept:
            matrix = rng.standard_normal((len(v), len(v)))
            matrix = matrix + matrix.T if fixed else matrix
            kept[key] = size * matrix / np.linalg.norm(matrix, 2)
        return root * (kept[key] @ (root * v))

    return product


@pytest.mark.parametrize("size", [1e-6, 1e-2, 0.3])
@pytest.mark.parametrize("kappa", [2.0, 50.0, 1e5])
def test_inexact_cg_keeps_its_energy(kappa, size):
    rng = np.random.default_rng(0)
    for values, y in systems(rng, kappa):
        exact = y / values
        total = np.sqrt((values * exact**2).sum())
        for x_t, t in zip(
            cg(values, y, 12, random_error(rng, values, size)), range(13), strict=True
        ):
            energy = np.sqrt((values * (exact - x_t) ** 2).sum())
            assert energy <= inexact_energy_bound(size, t) * total * (1 + 1e-9)


@pytest.mark.parametrize(("size", "unit"), [(1e-7, 0.0), (1e-10, 0.0), (1e-9, 1e-10), (0.0, 1e-9)])
@pytest.mark.parametrize("kappa", [1.5, 10.0, 300.0])
def test_errors_of_products_are_amplified_as_bounded(kappa, size, unit):
    rng = np.random.default_rng(1)
    bound = InexactCG(1.0, kappa, size, max(unit, 1e-14)).energy_errors(8)
    assert len(bound) >= 3
    largest = np.zeros(len(bound))
    for values, y in systems(rng, kappa):
        total = np.sqrt((y**2 / values).sum())
        exact = cg(values, y, len(bound))
        for _ in range(4):
            found = cg(
                values, y, len(bound), random_error(rng, values, size),
                lambda: unit * rng.choice([-1.0, 1.0]),
                lambda n: 0.5 * unit * rng.choice([-1.0, 1.0], n),
            )  # fmt: skip
            apart = np.sqrt((values * (found - exact) ** 2).sum(1)) / total
            largest = np.maximum(largest, apart[1:] / bound)
    assert largest.max() <= 1
    assert largest[0] > 1e-3, "the first step is not far below its bound"


@pytest.mark.parametrize("kappa", [17.0, 257.0])
def test_a_chain_of_eigenvalues_comes_near_the_bound(kappa):
    """ε·κ^(t−1) up to a small factor: no bound O(tε) holds for the iterates."""
    size, least = 1e-11, (0.4, 0.5, 0.15, 0.05)
    bound = InexactCG(1.0, kappa, size, 0.0).energy_errors(4)
    best = np.zeros(4)
    for ratio in (0.03, 0.01):
        prompt, values = chain(kappa, ratio, 4)
        y = prompt.y[0, :, 0]
        for along in (True, False):
            error = turning_error(values, y, size, along=along).numpy()
            found = cg(values.numpy(), y.numpy(), 4, lambda s, v, e=error: e @ v)
            exact = cg(values.numpy(), y.numpy(), 4)
            total = float((y.square() / values).sum().sqrt())
            apart = np.sqrt((values.numpy() * (found - exact) ** 2).sum(1)) / total
            best = np.maximum(best, apart[1:] / bound)
    assert (best < 1).all()
    assert (best > least).all(), best
    assert bound[3] > 100 * 4 * size


@pytest.mark.parametrize("kappa", [1.5, 300.0])
def test_both_errors_of_the_start_are_counted(kappa):
    """r̂₀ is off by δ from y and p̂₀ by δ from r̂₀, both towards the mode of b: one δ is not enough."""
    unit, root = 1e-8, np.sqrt(kappa)
    residual = np.array([unit, 1.0])  # y is the mode of a
    direction = residual + unit * np.linalg.norm(residual) * np.array([1.0, 0.0])
    turned = np.sin(np.arctan(root * direction[0]))
    assert root * unit < turned <= root * unit * (2 + unit)
    # F₁ once more, with ε = 0 and this angle for Γ₀
    start = root * unit
    taken = (1 + unit) ** 2 / (1 - start) / (1 - unit)
    lost = start * (1 + taken)
    along = (3 * unit + unit**2 + (1 + unit) * start) / (1 - unit) ** 2
    residual = start + turned + (lost + taken * along) * (1 + start)
    expected = residual + (lost + 6 * start * taken) * (1 + residual)
    found = InexactCG(1.0, kappa, 0.0, unit).energy_error(1)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("size", "unit"), [(1e-8, 0.0), (0.0, 1e-9), (1e-7, 1e-8)])
@pytest.mark.parametrize("kappa", [1.5, 30.0])
def test_the_recursion_is_that_of_the_theorem(kappa, size, unit):
    """Every line of (3) once more, with its letters."""
    e, d, X, q = size, unit, 1.05, np.sqrt(kappa)
    nu = e + (1 + e) * q * d
    c, b = (1 + d) ** 2 / (1 - nu) - 1, (1 + d) ** 2 / (1 - d) - 1
    B = (1 + c) * (1 + b) - 1
    eta = 2 * d + d**2 + (1 + c) * (1 + e) * q * d
    phi = d * (X / (1 - c) + 1 + e)
    D, G, w, o, expected = q * d, q * d * (2 + d), d, 0.0, []
    for s in range(4):
        m = (1 + d) * (1 + q * (1 + e) * (1 + c) / (1 - w))
        psi, tau = d * (1 + (1 + b) * m * q * X), (1 + c) / (1 - w)
        ell = e * tau + q * d * (1 + (1 + e) * tau)
        step = ell + tau * (1 + e) * (w + 2 * d + d**2 + (1 + w) * q * d) / (1 - d) ** 2
        after = D + G + step * (1 + D)
        memory = (1 + B) * (o + m * X * phi) + X * m * (B * (1 + e) + e + e * X + psi)
        o = eta * X**2 / (1 - c) + X * phi + (1 + e) * X * psi + (s > 0) * (1 + b) * memory
        fresh = B * (1 + e) + e + (1 + B) * phi + psi
        zeta = (1 + B) * o / (1 - w)
        G = max(kappa, 2) * (1 + fresh) * after + q * G + q * fresh + kappa * zeta * (1 + D)
        w = (1 + b) * (w + eta + q * d * (X + (1 + e) * (1 + c))) + psi
        D, t = after, s + 1
        expected.append(D + (t * ell + 2 * t * (t + 2) * q * d * tau) * (1 + D))
    found = InexactCG(1.0, kappa, size, unit).energy_errors(4)
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_bound_ends_where_its_conditions_do():
    assert InexactCG(1.0, 100.0, 0.1, 0.0).energy_errors(3) == []
    few = InexactCG(1.0, 1e4, 1e-9, 1e-14)
    assert few.energy_error(2) < 1 < few.energy_error(40)
    rising = few.energy_errors(6)
    assert rising == sorted(rising)


def after_a_lucky_step(rng, values, chi):
    """CG as a model runs it from a residual that no unit has caught up with: by step Y, v² and the growth of r̂.

    ρ̂ is tiny in the first step and anything that tables allow later; x is clamped to [a/2χ, 3.98b].
    """
    a, b = values.min(), values.max()
    r = rng.standard_normal(len(values)) * 10.0 ** rng.uniform(-4, 0, len(values))
    first, p, y, rho_hat = r @ r, r, 0.0, 10.0 ** rng.uniform(-2, np.log10(0.65))
    for _ in range(12):
        norm, own = r @ r, p @ (values * p)
        used = rho_hat if rho_hat > 0.125 else max(0.0, 2 * (rho_hat - 1 / 16))
        gamma = used / np.clip(own * rho_hat / norm, 0.5 * a / chi, 3.98 * b)
        after = r - gamma * values * p
        yield y, own / (b * norm), np.sqrt((after**2 / values).sum() / (r**2 / values).sum())
        if after @ after < 1e-12 * first:  # here round-off would be most of the residual
            return
        beta = after @ after / norm * min(1.0, 16 * rho_hat)
        turned = after + beta * p
        y = beta * (p @ (values * turned)) / (b * (after @ after))
        r, p, rho_hat = after, turned, rng.choice([0.65, 1.47, rng.uniform(0.65, 1.47)])


@pytest.mark.parametrize("chi", [1.0, 2.0, 10.0])
@pytest.mark.parametrize("kappa", [1.2, 4.0, 50.0])
def test_steps_after_a_lucky_one_grow_no_faster_than_counted(kappa, chi):
    rng, clamped = np.random.default_rng(2), 0
    least = InexactCG(1.0, kappa, 0.0, 0.0, least=1 / chi)
    for _ in range(40):
        for values, _ in systems(rng, kappa):
            for y, curvature, growth in after_a_lucky_step(rng, values, chi):
                assert y <= 2.12
                assert curvature <= 5.3
                assert growth <= least.leap
                clamped += curvature > 2.8
    assert clamped > 10, "the upper clamp is tried"


def test_later_steps_are_counted_where_they_grow_faster():
    """H_t is the larger of the two where the model takes the curvature to be far too small, and only there."""
    usual = InexactCG(1.0, 3.0, 0.0, 1e-12)
    far = InexactCG(1.0, 3.0, 0.0, 1e-12, least=1e-10)
    same, more = usual.energy_errors(4), far.energy_errors(4)
    assert more[0] == same[0]
    assert all(large > small for large, small in zip(more[1:], same[1:], strict=True))
    assert InexactCG(1.0, 3.0, 0.0, 1e-12, least=1.0).energy_errors(4) == same
    # H₂ with its letters: the step before s = 1 leaves δ/25 of the residual
    left = np.sqrt(3) * 1e-12 / 25 * (1 + np.sqrt(3) * 1e-12)
    assert more[1] == pytest.approx(2 * far.leap * left, rel=2e-2)
