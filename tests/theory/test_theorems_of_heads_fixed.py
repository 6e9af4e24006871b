"""Methods with fixed coefficients on inexact products, and the reciprocals of compiled models."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch

from ridgeformer import theory
from ridgeformer.experiments.theorems.heads_fixed import (
    ERROR,
    INTERVAL,
    RIDGE,
    SOLVERS,
    GivenErrors,
    TooLarge,
    old_errors,
    one_support,
)
from ridgeformer.kernels import Linear
from ridgeformer.program.tables import reciprocal_table
from ridgeformer.solvers import Chebyshev, GradientDescent, HeavyBall, solve
from ridgeformer.solvers.richardson import RichardsonState, Stationary
from ridgeformer.tasks import Prompt
from ridgeformer.theory.sensitivity import NotFixed, SpectralMachine, iterates, products_in_a_period

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.name)
@pytest.mark.parametrize("top", [1.5, 3.0, 400.0])
def test_old_errors_count_as_in_closed_form(solver, top):
    """Every single response, for every age, and not only their sum."""
    steps, tuned = 40, (1.0, top)
    centre, root = (1 + top) / 2, top**0.5
    theta, age = (root - 1) / (root + 1), np.arange(steps)[::-1]
    machine = SpectralMachine(np.linspace(*tuned, 501), tuned, errors=steps)
    found = np.abs(iterates(machine, solver, steps)[-1]).max(axis=1)
    said = {
        "gd": ((top - 1) / (top + 1)) ** age / centre,
        "heavy-ball": (1 + theta**2) / centre * (age + 1) * theta**age,
        "chebyshev": 2 * (1 + theta**2) / centre * (age + 1) * theta**age,
    }[solver.name]
    assert (found <= said * (1 + 1e-9) + 1e-300).all()
    assert (found >= 0.2 * said)[-4:].all()
    assert theory.long_sensitivity(
        solver, steps=10**6, tuned=tuned, spectrum=tuned
    ).iterate >= found.sum() * (1 - 1e-9)


@pytest.mark.parametrize("solver", [HeavyBall(), Chebyshev()], ids=lambda s: s.name)
@pytest.mark.parametrize("beyond", [1e-6, 9e-4])
def test_errors_beyond_the_interval_count_as_in_closed_form(solver, beyond):
    tuned = (1.0, 400.0)
    spectrum = (1.0, 400.0 + beyond * 399.0 / 2)
    for steps in (3, 40, 120):
        known = {"steps": steps, "tuned": tuned, "spectrum": spectrum, "offset": 1.0}
        found, said = theory.sensitivity(solver, **known), theory.long_sensitivity(solver, **known)
        assert found.iterate <= 1.5 * said.iterate  # the first is a bound, too, by up to 1.42
        machine = SpectralMachine(np.linspace(*spectrum, 501), tuned, errors=steps)
        largest = np.abs(iterates(machine, solver, steps)[-1]).max(axis=1).sum()
        assert largest <= said.iterate * (1 + 1e-9)
    inside = theory.long_sensitivity(solver, steps=300, tuned=tuned, spectrum=tuned, offset=1.0)
    beside = theory.long_sensitivity(solver, steps=300, tuned=tuned, spectrum=spectrum, offset=1.0)
    assert inside.iterate < beside.iterate
    far = (1.0, 401.0)
    with pytest.raises(NotFixed, match="no closed form"):
        theory.long_sensitivity(solver, steps=300, tuned=tuned, spectrum=far)


def test_a_long_run_reaches_the_sum():
    for solver, reached in zip(SOLVERS, (0.99, 0.99, 0.4), strict=True):
        measured, bound = old_errors(solver)
        assert reached * bound < measured <= bound * (1 + 1e-9)


@dataclass(frozen=True)
class LongerLater(Stationary):
    """Gradient descent whose steps are twice as long from the seventh on."""

    interval: tuple[float, float] | None = None
    name = "longer-later"

    def step_size(self, m, t):
        return super().step_size(m, t) * (2 if t > 6 else 1)


def test_a_method_whose_later_steps_differ_has_no_closed_form():
    tuned = (1.0, 30.0)
    with pytest.raises(NotFixed, match="no closed form"):
        theory.long_sensitivity(LongerLater(), steps=300, tuned=tuned, spectrum=tuned)
    assert products_in_a_period(LongerLater(), tuned, 5) == 1
    assert products_in_a_period(LongerLater(), tuned, 12) == 0


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.name)
def test_one_support_comes_near_the_bound_of_heads(solver):
    for steps in (1, 2, 8):
        apart, most = one_support(solver, steps)
        assert 0.15 * most < float(apart.max()) <= most


@dataclass(frozen=True)
class Enlarged(Stationary):
    """Gradient descent that multiplies `size` times α and divides again."""

    size: float = 1.0
    interval: tuple[float, float] | None = None
    name = "enlarged"

    def step(self, m, s, t):
        residual = m.target() - (1 / self.size) * m.matvec(self.size * s.alpha)
        return s._replace(alpha=s.alpha + self.step_size(m, t) * residual)


@dataclass(frozen=True)
class OfResiduals(Stationary):
    """Gradient descent whose products are with a residual that it updates."""

    interval: tuple[float, float] | None = None
    name = "of-residuals"

    def init(self, m):
        return RichardsonState(m.zeros(), m.target())

    def step(self, m, s, t):
        eta = self.step_size(m, t)
        return RichardsonState(s.alpha + eta * s.inverse, s.inverse - eta * m.matvec(s.inverse))


def test_a_vector_longer_than_the_iterates_costs_as_much_more():
    """Of an operator that is off, not of a query: responses count errors in units of the product."""
    size = torch.tensor([[[(INTERVAL[1] - RIDGE) ** 0.5]]], dtype=torch.float64)
    prompt = Prompt(size, torch.ones_like(size), size)
    errors = GivenErrors(1, 1, 1e-3, 1, float(size), part=ERROR * (1 + 1e-6))
    for solver, longest in ((Enlarged(1.0), 1.0), (Enlarged(1000.0), 1000.0)):
        known = {"steps": 8, "tuned": INTERVAL}
        multiplied = theory.largest_multiplied(solver, **known)
        assert multiplied == pytest.approx(longest)
        assert not theory.written_out(solver)
        response = theory.sensitivity(solver, **known, spectrum=INTERVAL, offset=RIDGE)
        machine = TooLarge(prompt, Linear(), RIDGE)
        machine.fixed_interval = INTERVAL
        state = solver.init(machine)
        for t in range(1, 9):
            state = solver.step(machine, state, t)
        clean = solve(solver, prompt, steps=8, ridge=RIDGE, interval=INTERVAL, states=True)
        apart = float((Linear()(size, size) @ (state.alpha - clean.states["alpha"][-1])).abs())
        given = {"update": 0.0, "ridge": RIDGE, "centre": sum(INTERVAL) / 2}
        most = theory.heads_fixed_bound(response, errors, **given, multiplied=multiplied)
        reading = errors.entry * 1.001
        largest = float(clean.states["alpha"].abs().max())
        assert 0.1 * (most - reading) < apart / largest <= most
        if longest > 1:
            short = theory.heads_fixed_bound(response, errors, **given)
            assert apart / largest > 10 * (short - errors.entry), "what was counted before"


def test_which_vectors_are_multiplied():
    known = {"steps": 6, "tuned": (1.0, 30.0)}
    for solver in (*SOLVERS, LongerLater()):
        assert theory.largest_multiplied(solver, **known) == 1.0
        assert theory.written_out(solver) == (solver in SOLVERS)
    with pytest.raises(NotFixed, match="multiplies other vectors"):
        theory.largest_multiplied(OfResiduals(), **known)
    with pytest.raises(NotFixed, match="leave the range"):
        theory.largest_multiplied(Enlarged(1e300), steps=6, tuned=(1e-20, 1e-18))


def test_nothing_is_bounded_where_iterates_may_stray():
    errors = theory.HeadPairErrors(4, 2, 1e-3, 1, 1.0)
    response = theory.Sensitivity(prediction=1.0, iterate=0.6 / errors.operator)
    assert theory.heads_fixed_bound(response, errors, update=0.0, ridge=1.0, centre=3.0) == np.inf
    known = {"condition": 10.0, "looped": True, "chebyshev": True}
    plain = theory.update_round_off_bound(errors, condition=10.0)
    assert plain == theory.accumulated(56, errors.unit)
    assert theory.update_round_off_bound(errors, **known) > 2 * plain
    assert theory.update_round_off_bound(errors, **known | {"condition": 1e14}) == np.inf
    assert theory.update_round_off_bound(errors, condition=1.0, least_scaling=1.0) > plain
    # 1/ω is off by up to 14(√κ + 1)²/2√κ roundings where the compiler works it out
    more = theory.update_round_off_bound(errors, condition=1e6, chebyshev=True) - plain
    assert more == pytest.approx(14 * 501.0005 * 2.0**-53, rel=1e-6, abs=0)


def test_the_bound_of_heads_is_that_of_the_theorem():
    """μ, â and the sum of (2) once more, with a round-off of updates that is no smaller than the rest."""
    errors = theory.HeadPairErrors(4, 2, 1e-3, 1, 1.0)
    update, ridge, centre, (least, most) = 1e-3, 0.5, 3.0, (0.7, 1.3)
    response = theory.Sensitivity(prediction=2.0, iterate=0.4)
    m = 0.4 / least
    mu = errors.operator * (1 + update) + update * (errors.size + ridge + 2 * centre * most)
    iterate = (1 + m * update * centre * most) / (1 - m * mu)
    residual = mu * iterate + update * centre * most
    expected = 1.0 * 2.0 / least**0.5 * residual + errors.entry * iterate
    found = theory.heads_fixed_bound(
        response, errors, update=update, ridge=ridge, centre=centre, scaling=(least, most)
    )
    assert found == pytest.approx(expected, rel=1e-12)


def test_no_eigenvalue_is_below_the_ridge_wherever_a_method_is_tuned_to():
    """Below it σ − λ is negative, and a grid would not find where it is largest."""
    tuned = (0.1, 10.0)
    given = {"steps": 6, "tuned": tuned, "offset": 1.0}
    for solver in (GradientDescent(), Chebyshev(), HeavyBall()):
        wide = theory.sensitivity(solver, spectrum=tuned, **given)
        assert wide == theory.sensitivity(solver, spectrum=(1.0, 10.0), **given)


@pytest.mark.parametrize("heads", [False, True], ids=["gated MLP", "linear attention"])
def test_a_reciprocal_rounds_by_less_than_twelve_units(heads):
    """The operations of both constructions, one by one in float32, against fractions."""
    unit = theory.UNIT["float32"]
    bound, ratio = theory.reciprocal_round_off_bound(unit), 0.0
    assert bound < theory.RECIPROCAL * unit
    assert theory.reciprocal_round_off_bound(theory.UNIT["float64"]) < theory.RECIPROCAL * 2.0**-53
    for lo, hi in ((0.5, 1.0), (1e-3, 1.0), (1e-9, 1.0)):
        r = reciprocal_table(lo, hi)
        off = np.abs([r.a - 1, r.b - 1, r.c - 1, abs(r.d) - 1, r.f - 1])
        assert off.max() < 1e-4
        assert r.b * r.d < 0, "one of the quadratic factors has a minus"
        one, a, b, c, d, f = np.array([1, r.a, r.b, r.c, r.d, r.f], dtype=np.float32)
        x = np.exp(np.random.default_rng(0).uniform(np.log(lo), np.log(hi), 4000)).astype("f4")
        root, weights = np.sqrt(r.table.knots), r.table.weights
        slopes, biases = (-1 / root).astype("f4"), root.astype("f4")
        hinges = np.maximum(slopes * x[:, None] + biases, 0) * weights.astype("f4")
        z = hinges.sum(-1, dtype="f4") + np.float32(r.table.constant)
        e = one - z * x
        square = e * e
        g = a * z
        first = z + (g - z * (x * g)) if heads else z + z * (a * e)
        second = (first + first * (b * e)) + first * (c * square)
        found = (second + second * (d * e)) + second * (f * square)
        assert found.dtype == np.float32
        exact = [
            float(abs(Fraction(float(p)) * Fraction(float(q)) - 1))
            for p, q in zip(x, found, strict=True)
        ]
        ratio = max(ratio, max(exact) / bound)
    assert 0.2 < ratio < 1
