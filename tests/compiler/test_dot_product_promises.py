"""Dot products from softmax heads promise what is proved, and nothing else; the edges of domains try them."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from edges import KINDS, edge_prompts
from promise import excess_of, over_allowed, solution

from ridgeformer.compiler import HeadPairs, SoftmaxAttention, compile
from ridgeformer.compiler.backends.head_errors import LARGEST_PROMISE, HeadPairPromise
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.job import Job
from ridgeformer.kernels import Linear, Polynomial
from ridgeformer.models import reference, trajectory
from ridgeformer.models.reference import interval_of
from ridgeformer.solvers import ConjugateGradient, Solver, make_solver, solve
from ridgeformer.theory import UNIT, HeadPairErrors, best_scale
from ridgeformer.types import Refusal

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]

HARD = {"supports": 7, "features": 2, "radius": 2.24}
RIDGE, STEPS = 0.0019, 8


def hard_model(name, precondition, pairs):
    to = SoftmaxAttention(HARD["radius"], HARD["supports"], dot_products=pairs)
    return compile(
        make_solver(name, precondition), features=HARD["features"], steps=STEPS, ridge=RIDGE, to=to
    )


def off_by(model, prompt):
    """By step: the largest distance to the solver, over the largest prediction of the prompt."""
    found, exact = trajectory(model, prompt).predictions.numpy(), solution(model, prompt)
    largest = np.abs(exact).max(axis=(0, 2, 3))
    return (np.abs(found - exact).max(axis=(2, 3)) / largest).max(axis=1)


@pytest.mark.parametrize("precondition", ["none", "jacobi"])
@pytest.mark.parametrize("heads", [2, 8])
def test_cg_is_refused_where_it_amplifies(heads, precondition):
    with pytest.raises(
        Refusal, match=r"at most \d steps? of cg .* and not 8.* use `chebyshev` or `gd`"
    ):
        hard_model("cg", precondition, HeadPairs(heads))


@pytest.mark.parametrize(("heads", "epsilon"), [(2, 1.6e-6), (8, 3e-3)])
def test_cg_with_jacobi_strays_on_collinear_supports(heads, epsilon):
    """Why it is refused: 10·t·κ·(the error of a product), promised before, is off by orders."""
    model = hard_model("cg", "jacobi", HeadPairs(heads, epsilon))
    assert model.certificate.relative_error is None
    assert model.certificate.promise().startswith("none: at this scale of the heads")
    prompt = edge_prompts("collinear", np.random.default_rng(0), batch=64, **HARD)
    apart = off_by(model, prompt)
    assert apart[1] < 1e-6, "the first step is fine"
    assert apart[4:].max() > 1e-2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "precondition"),
    [("chebyshev", "none"), ("chebyshev", "jacobi"), ("gd", "none"), ("heavy-ball", "none")],
)
def test_what_the_refusal_recommends_keeps_its_promise_there(name, precondition, kind):
    for heads in (2, 8):
        model = hard_model(name, precondition, HeadPairs(heads))
        assert model.certificate.relative_error <= 1e-6
        prompt = edge_prompts(kind, np.random.default_rng(1), batch=8, **HARD)
        assert excess_of(model, prompt, trajectory(model, prompt).predictions.numpy()).max() < 1


SOLVERS = [
    ("gd", "none"), ("richardson", "jacobi"), ("heavy-ball", "none"), ("chebyshev", "none"),
    ("chebyshev", "jacobi"), ("cg", "none"), ("cg", "jacobi"), ("cg", "none"), ("cg", "jacobi"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("precondition", ["none", "jacobi"])
@pytest.mark.parametrize("name", ["cg", "chebyshev", "gd"])
def test_prompts_beyond_the_edge_are_counted(name, precondition, dtype):
    """The promise is that of a domain as large as what is served, in which only the coefficients are others."""
    if name == "gd" and precondition == "jacobi":
        name = "richardson"
    beyond = {"float64": 2.0**-23, "float32": 1e-5}[dtype]
    unit, ridge = UNIT[dtype], {"float64": 5.0, "float32": 500.0}[dtype]
    job = Job(make_solver(name, precondition), Linear(), 2, 1, 3, ridge, dtype)
    made = best_scale(4, 2, 4, 1.5, unit)
    promise = HeadPairPromise(job, Domain(Linear(), 1.5, 4), made)
    longer = HeadPairErrors(4, 2, made.epsilon, 4, 1.5 * (1 + beyond), unit)
    assert promise.errors.operator == pytest.approx(longer.operator, rel=1e-12)
    assert promise.errors.operator > made.operator
    assert promise.spectrum[1] >= promise.tuned[1] or precondition == "jacobi"
    assert promise.scaling[1] >= 1.0
    # inside the domain alone less would do
    inside = replace(promise)
    inside.__dict__.update(reached=promise.domain, errors=made)
    assert inside.error(3) < promise.error(3) < 1.01 * inside.error(3)


def random_model(rng):
    """A model and its domain, or None if it is refused."""
    name, precondition = SOLVERS[rng.integers(len(SOLVERS))]
    supports, features = int(rng.integers(1, 13)), int(rng.integers(1, 5))
    radius, ridge = 10.0 ** rng.uniform(-1, 0.7), 10.0 ** rng.uniform(-3, 1)
    steps = int(rng.integers(1, 5 if name == "cg" else 10))
    kernel = Polynomial(2) if rng.random() < 0.2 else Linear()
    dtype = "float32" if rng.random() < 0.1 else "float64"
    outputs = int(rng.integers(1, 3))
    pairs = HeadPairs(int(rng.choice([2, 4, 6, 8, 12])))
    if name == "cg" and rng.random() < 0.7:  # mostly where something can be promised
        ridge = kernel.range(radius).most * supports * 10.0 ** rng.uniform(-2, 1)
    try:
        model = compile(
            make_solver(name, precondition), features=features, outputs=outputs, steps=steps,
            ridge=ridge, kernel=kernel, dtype=dtype,
            to=SoftmaxAttention(radius, supports, dot_products=pairs),
        )  # fmt: skip
    except Refusal:
        return None
    assert 0 < model.certificate.relative_error <= LARGEST_PROMISE
    few = int(rng.integers(1, supports + 1))
    domain = {"supports": few, "features": features, "radius": radius, "outputs": outputs}
    return model, domain


def promises_kept(rng, models, batch):
    """How many models were tried, and how many of them run CG; a broken promise fails."""
    tried = of_cg = 0
    while tried < models:
        made = random_model(rng)
        if made is None:
            continue
        model, domain = made
        tried, of_cg = tried + 1, of_cg + (model.certificate.solver == "cg")
        for kind in KINDS:
            prompt = edge_prompts(kind, rng, batch=batch, **domain)
            prompt = prompt.to(getattr(torch, model.certificate.dtype))
            found = trajectory(model, prompt).predictions.numpy()
            assert np.isfinite(found).all()
            worst = excess_of(model, prompt, found).max()
            assert worst < 1, (kind, domain, model.certificate, worst)
    return tried, of_cg


def test_no_promise_is_broken_at_the_edges():
    tried, of_cg = promises_kept(np.random.default_rng(0), models=12, batch=3)
    assert of_cg >= tried // 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_no_promise_is_broken_at_the_edges_of_many_domains(seed):
    tried, of_cg = promises_kept(np.random.default_rng(seed), models=150, batch=4)
    assert of_cg >= tried // 5


def test_a_promise_holds_for_every_number_of_steps_of_a_loop():
    """The error of few steps is not that of many in proportion."""
    to = SoftmaxAttention(2.0, 6, dot_products=HeadPairs(2))
    model = compile(make_solver("gd"), features=2, steps=400, ridge=0.01, to=to, looped=True)
    rng = np.random.default_rng(0)
    for steps in (1, 2, 40):
        certificate = model.certificate.at(steps)
        assert certificate.relative_error == model.certificate.relative_error
        for kind in KINDS:
            prompt = edge_prompts(kind, rng, batch=3, supports=6, features=2, radius=2.0)
            found = trajectory(model, prompt, steps=steps).predictions.numpy()
            exact = reference(model, prompt, steps=steps, states=True)
            sums = exact.states["alpha"].abs().sum(2).amax((0, 2)).numpy()
            allowed = over_allowed(
                found, exact.predictions.numpy(), 0.0, certificate.relative_error, 0.0, 4.0 * sums
            )
            assert allowed.max() < 1


class Moving(NamedTuple):
    alpha: Any
    velocity: Any


@dataclass(frozen=True)
class Nesterov(Solver):
    """A gradient step from α + βv, v the last change: no semi-iteration of the theorems."""

    name = "nesterov-of-ones-own"

    def init(self, m):
        return Moving(m.zeros(), m.zeros())

    def step(self, m, s, t):
        lo, hi = m.interval("none")
        beta = (hi**0.5 - lo**0.5) / (hi**0.5 + lo**0.5)
        ahead = m.bound(
            s.alpha + beta * s.velocity, lambda: 100 * m.solution_norm(), "these prompts"
        )
        alpha = ahead + (1 / hi) * (m.target() - m.matvec(ahead))
        alpha = m.bound(alpha, lambda: 100 * m.solution_norm(), "these prompts")
        return Moving(alpha, alpha - s.alpha)


@dataclass(frozen=True)
class Momentum(Nesterov):
    """Heavy ball with its change as a variable: the same iterates, by other additions."""

    name = "momentum-of-ones-own"

    def step(self, m, s, t):
        lo, hi = m.interval("none")
        eta, beta = 4 / (hi**0.5 + lo**0.5) ** 2, ((hi**0.5 - lo**0.5) / (hi**0.5 + lo**0.5)) ** 2
        change = beta * s.velocity + eta * (m.target() - m.matvec(s.alpha))
        change = m.bound(change, lambda: 100 * m.solution_norm(), "these prompts")
        alpha = m.bound(s.alpha + change, lambda: 100 * m.solution_norm(), "these prompts")
        return Moving(alpha, change)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", [Nesterov(), Momentum()])
def test_ones_own_updates_are_said_to_be_checked_and_are(solver, dtype):
    """Their products are those of the theorems; what their additions round is not counted there."""
    to = SoftmaxAttention(1.0, 6, dot_products=HeadPairs(2 if dtype == "float32" else 12))
    model = compile(solver, features=2, steps=6, ridge=1.0, to=to, dtype=dtype)
    promise, entries = model.certificate.promise(), model.certificate.to_dict()
    assert promise.endswith("the round-off of its updates is checked, not proved")
    assert Certificate.from_dict(entries).promise() == promise
    rng = np.random.default_rng(0)
    for kind in KINDS:
        prompt = edge_prompts(kind, rng, batch=8, supports=6, features=2, radius=1.0)
        prompt = prompt.to(getattr(torch, dtype))
        exact = solve(
            solver,
            prompt.to(torch.float64),
            steps=6,
            ridge=1.0,
            interval=interval_of(model),
            states=True,
        )
        found = trajectory(model, prompt).predictions.double()
        sums = exact.states["alpha"].abs().sum(2).amax((0, 2))
        allowed = model.certificate.relative_error * sums[:, None, None]
        assert ((found - exact.predictions).abs() <= allowed).all(), kind


class OfResiduals(Nesterov):
    """Gradient descent whose products are with a residual that it updates."""

    name = "of-residuals"

    def init(self, m):
        return Moving(m.zeros(), m.target())

    def step(self, m, s, t):
        eta = 2 / sum(m.interval("none"))
        alpha = m.bound(s.alpha + eta * s.velocity, lambda: 100 * m.solution_norm(), "…")
        rest = s.velocity - eta * m.matvec(s.velocity)
        return Moving(alpha, m.bound(rest, lambda: 100 * m.solution_norm(), "…"))


@dataclass(frozen=True)
class WithJacobi(Nesterov):
    precondition: str = "jacobi"
    name = "with-jacobi"


@dataclass(frozen=True)
class JacobiTwice(Solver):
    """Jacobi's preconditioner stands before the vector that is multiplied, too."""

    precondition: str = "jacobi"
    name = "jacobi-twice"
    preconditioners = ("jacobi",)

    def init(self, m):
        return Moving(m.zeros(), m.inverse_preconditioner("jacobi"))

    def step(self, m, s, t):
        eta = 1 / sum(m.interval("jacobi"))
        residual = m.target() - m.matvec(s.velocity * s.alpha)
        alpha = s.alpha + eta * s.velocity * residual
        return s._replace(alpha=m.bound(alpha, lambda: 100 * m.solution_norm(), "…"))


@pytest.mark.parametrize("solver", [OfResiduals(), WithJacobi(), JacobiTwice()])
def test_steps_that_multiply_other_vectors_are_refused(solver):
    to = SoftmaxAttention(1.0, 6, dot_products=HeadPairs(12))
    with pytest.raises(Refusal, match=r"nothing can be promised for .*, which multiplies other"):
        compile(solver, features=2, steps=6, ridge=1.0, to=to)


@pytest.mark.parametrize("name", ["gd", "heavy-ball", "chebyshev"])
def test_the_updates_of_the_package_are_proved(name):
    to = SoftmaxAttention(1.0, 6, dot_products=HeadPairs(4))
    model = compile(make_solver(name), features=2, steps=3, ridge=1.0, to=to)
    assert not model.certificate.updates_unproved
    assert "updates_unproved" not in model.certificate.to_dict()
    assert "checked" not in model.certificate.promise()


class HalfSteps(ConjugateGradient):
    """CG that begins with half a step: what is proved of CG is not proved of it."""

    name = "half-steps-of-ones-own"

    def step(self, m, s, t):
        after = super().step(m, s, t)
        return after._replace(alpha=0.5 * after.alpha) if t == 1 else after


def test_a_step_that_derives_from_cg_is_not_promised_what_cg_is():
    to = SoftmaxAttention(0.1, 2, dot_products=HeadPairs(8))
    assert compile(make_solver("cg"), features=2, steps=1, ridge=1.0, to=to)
    with pytest.raises(Refusal, match="nothing can be promised for half-steps-of-ones-own"):
        compile(HalfSteps(), features=2, steps=1, ridge=1.0, to=to)
