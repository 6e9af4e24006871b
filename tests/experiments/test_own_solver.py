"""The general theorems on solvers that a user wrote: they hold, planted errors show, limits are named."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from theorem_cases import plant

import ridgeformer as rf
from ridgeformer import theory
from ridgeformer.experiments.theorems import general, structure
from ridgeformer.experiments.theorems.cases import Case
from ridgeformer.solvers import SOLVERS, EagerMachine
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


class Momentum(NamedTuple):
    alpha: Any
    previous: Any


class Plain(NamedTuple):
    alpha: Any


class Scaled(NamedTuple):
    alpha: Any
    inverse: Any


@dataclass(frozen=True)
class Nesterov(rf.Solver):
    interval: Any = None
    name = "test-nesterov"

    def init(self, m):
        return Momentum(m.zeros(), m.zeros())

    def step(self, m, s, t):
        lo, hi = self.interval or m.interval("none")
        beta = (sqrt(hi / lo) - 1) / (sqrt(hi / lo) + 1)
        ahead = s.alpha + beta * (s.alpha - s.previous)
        alpha = ahead + (1 / hi) * (m.target() - m.matvec(ahead))
        return Momentum(m.bound(alpha, lambda: 4 * m.solution_norm(), "it is stable"), s.alpha)


@dataclass(frozen=True)
class TwoProducts(rf.Solver):
    interval: Any = None
    name = "test-two-products"

    def init(self, m):
        return Plain(m.zeros())

    def step(self, m, s, t):
        _, hi = self.interval or m.interval("none")
        r = m.target() - m.matvec(s.alpha)
        alpha = s.alpha + (1 / hi) * (r + (-1 / hi) * m.matvec(r))
        return Plain(m.bound(alpha, lambda: 2 * m.solution_norm(), "it is stable"))


@dataclass(frozen=True)
class RowSums(rf.Solver):
    precondition: Any = "row-sum"
    interval: Any = None
    name = "test-row-sums"
    preconditioners = ("row-sum",)

    def init(self, m):
        return Scaled(m.zeros(), m.inverse_preconditioner("row-sum"))

    def step(self, m, s, t):
        _, hi = self.interval or m.interval("row-sum")
        alpha = s.alpha + (1 / hi) * (s.inverse * (m.target() - m.matvec(s.alpha)))
        return s._replace(alpha=m.bound(alpha, lambda: 2 * m.solution_norm(), "it is stable"))


@dataclass(frozen=True)
class KernelProducts(rf.Solver):
    """Gradient descent written with K alone."""

    interval: Any = None
    name = "test-kernel-products"

    def init(self, m):
        return Plain(m.zeros())

    def step(self, m, s, t):
        lo, hi = self.interval or m.interval("none")
        residual = m.target() - m.kernel_product(s.alpha) - m.ridge * s.alpha
        return Plain(s.alpha + 2 / (lo + hi) * residual)


@pytest.fixture
def registered():
    """The user's solvers are known for the length of one test."""
    mine = (Nesterov, TwoProducts, RowSums, KernelProducts)
    for solver in mine:
        rf.register(solver)
    yield
    for solver in mine:
        del SOLVERS.members[solver.name]


CASES = [
    (Nesterov(), rf.Linear(), rf.LinearAttention(20.0)),
    (TwoProducts(), rf.Linear(), rf.LinearAttention(20.0)),
    (RowSums(), rf.Gaussian(), rf.SoftmaxAttention(1.0, 12)),
]


@pytest.mark.parametrize(("solver", "kernel", "to"), CASES, ids=lambda v: getattr(v, "name", ""))
def test_all_general_theorems_hold_of_a_users_solver(registered, solver, kernel, to, tmp_path):
    report = rf.verify_solver(solver, kernel=kernel, to=to, fast=True, out=tmp_path)
    assert report.holds
    assert not report.inapplicable
    names = [finding.name for finding in report.findings]
    assert names == [
        "compiled-is-solver", "polynomial-rate", "inexact-fixed-coefficients", "masking", "size-law",
    ]  # fmt: skip
    assert solver.name in str(report)
    page = (tmp_path / "index.html").read_text()
    assert "size-law" in page
    assert "<math" in page


def test_what_does_not_apply_is_named_with_the_reason():
    report = rf.verify_solver(rf.ConjugateGradient(), to=rf.LinearAttention(20.0), fast=True)
    assert report.holds
    assert set(report.inapplicable) == {"polynomial-rate", "inexact-fixed-coefficients"}
    assert "inner products" in report.inapplicable["polynomial-rate"]
    numerics = rf.verify_solver(TwoProducts(), fast=True)
    assert set(numerics.inapplicable) == {"compiled-is-solver", "masking", "size-law"}
    assert "give `to`" in str(numerics)


@pytest.mark.parametrize("solver", [TwoProducts(), KernelProducts(), Nesterov()])
def test_rates_and_errors_hold_whatever_the_solver_multiplies(solver):
    report = rf.verify_solver(solver, fast=True)
    worst = {f.name: f.get("worst", f.name).value for f in report.findings}
    assert report.holds
    assert worst["polynomial-rate"] > 0.9
    assert worst["inexact-fixed-coefficients"] > 0.5


def test_products_are_counted_one_by_one():
    """Two a step: errors of both reach the prediction, by responses that are known in closed form."""
    lo, hi = 1.0, 10.0
    assert theory.products_taken(TwoProducts(), steps=3, tuned=(lo, hi)) == 6
    seen = theory.sensitivity(TwoProducts(), steps=1, tuned=(lo, hi), spectrum=(lo, hi))
    # α_1 = η(r − ηAr): an error in the first product counts as η(1 − ηA), one in the second as η².
    grid = np.linspace(lo, hi, 2000)
    expected = (np.sqrt(grid) * (1 - grid / hi) / hi).max() + sqrt(hi) / hi**2
    assert expected <= seen.prediction <= 2**0.25 * expected * (1 + 1e-9)


def test_a_method_that_repeats_its_step_is_seen_to(monkeypatch):
    """The short way for stationary methods gives what all products one by one give."""
    from ridgeformer.theory.sensitivity import products_in_a_period

    module = __import__("sys").modules["ridgeformer.theory.sensitivity"]
    assert products_in_a_period(TwoProducts(), (1.0, 10.0), 6) == 2
    assert products_in_a_period(rf.Chebyshev(), (1.0, 10.0), 6) == 0
    options = {"steps": 7, "tuned": (1.0, 10.0), "spectrum": (1.0, 10.0), "offset": 1.0}
    short = theory.sensitivity(TwoProducts(), **options)
    monkeypatch.setattr(module, "products_in_a_period", lambda *_: 0)
    whole = theory.sensitivity(TwoProducts(), **options)
    np.testing.assert_allclose(short.prediction, whole.prediction, rtol=1e-12)
    np.testing.assert_allclose(short.iterate, whole.iterate, rtol=1e-12)


def test_polynomials_are_those_of_the_textbook():
    values = np.array([1.0, 2.5, 10.0])
    found = theory.residual_polynomials(
        rf.GradientDescent(), values, steps=3, tuned=(1.0, 10.0), ridge=0.5
    )
    np.testing.assert_allclose(found, (1 - 2 / 11 * values) ** np.arange(4)[:, None], atol=1e-15)
    with pytest.raises(theory.NotFixed, match="inner products"):
        theory.residual_polynomials(rf.ConjugateGradient(), values, steps=1, tuned=(1.0, 10.0))


def test_registered_solvers_enter_the_ordinary_run(registered):
    labels = {case.solver.name for case in general.InexactFixed().cases(fast=True)}
    assert {Nesterov.name, TwoProducts.name, RowSums.name} <= labels


class Shifted(Nesterov):
    """Numerics that are not those of the compiled model."""

    name = "test-shifted"

    def step(self, m, s, t):
        state = super().step(m, s, t)
        if isinstance(m, EagerMachine):
            state = state._replace(alpha=1.0001 * state.alpha)
        return state


def test_a_model_that_is_not_its_solver_is_noticed():
    rf.register(Shifted)
    try:
        report = rf.verify_solver(Shifted(), to=rf.LinearAttention(20.0), fast=True)
    finally:
        del SOLVERS.members[Shifted.name]
    violated = {f.name for f in report.findings if f.verdict == "VIOLATED"}
    assert "compiled-is-solver" in violated
    assert not report.holds


PLANTED = [
    (general, "polynomial_prediction_bound", general.PolynomialRate()),
    (general, "perturbed_prediction_bound", general.InexactFixed()),
]


@pytest.mark.parametrize(
    ("module", "name", "theorem"), PLANTED, ids=lambda v: getattr(v, "name", "")
)
def test_a_bound_that_is_too_small_is_noticed(monkeypatch, module, name, theorem):
    plant(monkeypatch, module, name, lambda f: lambda *a, **k: f(*a, **k) / 2)
    assert theorem.measure_on(Case(rf.Chebyshev()), 0, True).worst > 1.1


def test_a_growing_model_breaks_the_size_law(monkeypatch):
    """A law that is off by one parameter is seen, as is a layer too many."""
    right = general.parameters_of
    monkeypatch.setattr(general, "parameters_of", lambda *a: (right(*a)[0] + 1, right(*a)[1]))
    case = Case(rf.Chebyshev(), to=rf.LinearAttention(20.0))
    assert general.SizeLaw().measure_on(case, 0, True).worst > 1


def test_a_leak_is_counted(monkeypatch):
    def leaking(*arguments):
        inside, outside = right(*arguments)
        inside[-1, 0, 0, 0] = True
        return inside, outside

    right = structure.state_leak
    monkeypatch.setattr(structure, "state_leak", leaking)
    case = Case(rf.Chebyshev(), to=rf.LinearAttention(20.0))
    assert structure.Masking().measure_on(case, 0, True).worst == 2


def test_prompts_that_fit_no_domain_are_refused():
    case = Case(rf.GradientDescent(), rf.Polynomial(2), rf.LinearAttention(0.5, rf.Exact()))
    with pytest.raises(Refusal, match="max_eigenvalue"):
        case.prompts(2, seed=0)
