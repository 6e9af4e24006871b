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


@pytest.mark.parametrize("product", [0.0, 1e-3])
def test_no_step_after_a_solved_one_is_longer_than_the_best(product):
    """Held steps, clamps and units as compiled models have them: θ in γp' = θΠr' stays within [0, 1]."""
    rng, longest, held, above = np.random.default_rng(0), 0.0, 0, 0
    for _ in range(1500):
        kappa, n = 10.0 ** rng.uniform(0, 4), int(rng.integers(1, 7))
        values = kappa ** rng.uniform(size=n)
        values[:2] = (1.0, kappa)[:n]
        r = rng.standard_normal(n) * 10.0 ** (-rng.uniform(0, 4) * rng.permutation(n))
        r *= 10.0 ** rng.uniform(-1.5, -0.45) / np.linalg.norm(r)  # its unit has not followed
        p, rho, error = r.copy(), r @ r, random_error(rng, values, product)
        for s in range(3 * n + 4):
            q = values * p + error(s, p)
            curvature, gate = p @ q, np.clip(16 * rho - 1, 0, 1)
            held, above = held + (0 < gate < 1), above + (curvature > 4 * kappa)
            gamma = gate * rho / np.clip(curvature, 0.5, 4 * kappa)
            assert p @ r >= 0
            longest = max(longest, gamma * (p @ (values * p)) / (p @ r))
            r = r - gamma * q
            new = r @ r
            if new < 1e-20 * rho:
                break
            p = r + new / np.clip(rho, 1 / 16, 16) * p
            unit = np.sqrt(rng.choice([0.65, 1.48, rng.uniform(0.65, 1.48)]) / new)
            r, p, rho = unit * r, unit * p, unit**2 * new
    assert longest <= 1 + 2 * product + 1e-12
    assert held > 100, "steps that are held back in part"
    assert above > 50, "clamped curvatures"


def test_the_bound_ends_where_its_conditions_do():
    assert InexactCG(1.0, 100.0, 0.1, 0.0).energy_errors(3) == []
    few = InexactCG(1.0, 1e4, 1e-9, 1e-14)
    assert few.energy_error(2) < 1 < few.energy_error(40)
    rising = few.energy_errors(6)
    assert rising == sorted(rising)
