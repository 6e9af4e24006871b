"""Models that hold one step: any number of steps from one file, and what is refused."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from promise import excess
from textbook import dual_predictions, feature_predictions

from ridgeformer.compiler import (
    CompiledModel,
    Exact,
    LinearAttention,
    SoftmaxAttention,
    compile,
    size_report,
)
from ridgeformer.kernels import Gaussian, Linear, Polynomial
from ridgeformer.models import load, reference, residual_stream, trajectory
from ridgeformer.solvers import IterativeNewton, Solver, krr, make_solver, solve
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.transformer import ablate_head

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = PrescribedSpectrum(features=4, supports=12, condition=60)
PROMPT = TASK.draw(4, seed=0)
TOP = TASK.max_eigenvalue


def make(name, precondition="none", products=None, causal=False, **settings):
    return compile(
        make_solver(name, precondition), features=4, ridge=1.0,
        to=LinearAttention(TOP, products, causal), **{"looped": True} | settings,
    )  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("name", "layers", "dual_width"),
    [("gd", 1, 6), ("heavy-ball", 1, 7), ("chebyshev", 4, 9), ("cg", 7, 13)],
)
def test_one_file_serves_every_number_of_steps(name, layers, dual_width, causal, tmp_path):
    model = make(name, causal=causal)
    size = size_report(model)
    assert size["layers per step"] == layers
    if not causal:
        assert size["beyond features"] == dual_width
    model.save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert isinstance(model, CompiledModel)
    whole = trajectory(model, PROMPT, steps=200).predictions
    if name == "cg":
        textbook = feature_predictions if causal else dual_predictions
        assert excess(whole.numpy(), textbook, PROMPT, 1.0).max() < 1
    else:
        solver = solve(make_solver(name), PROMPT, steps=200, ridge=1.0, max_eigenvalue=TOP)
        apart = (whole - solver.predictions).abs().max()
        assert float(apart) < 1e-12 * float(solver.predictions.abs().max())
    for steps in (1, 2, 3, 57):
        found = model.predict(PROMPT, steps)
        # A pass without records leaves out the zeros of the weights, and sums in another order.
        promised = 1e-9 * float(whole.abs().max())
        torch.testing.assert_close(found, whole[steps], rtol=0, atol=promised)
        torch.testing.assert_close(model(PROMPT, steps=steps), found, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["gd", "heavy-ball", "chebyshev", "cg"])
def test_the_size_does_not_depend_on_the_steps(name, tmp_path):
    sizes = []
    for steps in (1, 40, 10_000):
        make(name, steps=steps).save(tmp_path / str(steps))
        sizes.append((tmp_path / str(steps) / "model.safetensors").stat().st_size)
    assert len(set(sizes)) == 1
    assert sizes[0] < 500_000


@pytest.mark.parametrize(
    ("name", "precondition", "products"),
    [
        ("gd", "none", None),
        ("richardson", "jacobi", Exact()),
        ("heavy-ball", "none", None),
        ("chebyshev", "none", Exact()),
    ],
)
def test_a_loop_computes_what_the_written_out_model_does(name, precondition, products):
    for steps in (1, 2, 30):
        loop = make(name, precondition, products)
        model = make(name, precondition, products, looped=False, steps=steps)
        apart = (loop.predict(PROMPT, steps) - model.predict(PROMPT)).abs().max()
        assert float(apart) < 1e-13 * float(model.predict(PROMPT).abs().max())


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2)])
def test_newton_in_a_loop_computes_the_bits_of_the_written_out_model(kernel, tmp_path):
    """Its pass multiplies by 2, which is exact, where the written out model changes the unit."""
    solver, to = IterativeNewton(plain=True), LinearAttention(400.0, Exact())
    settings = {"features": 4, "ridge": 1.0, "to": to, "kernel": kernel}
    prompt = Prompt(0.5 * PROMPT.phi, PROMPT.y, 0.5 * PROMPT.phi_query)
    compile(solver, looped=True, **settings).save(tmp_path / "model")
    loop = load(tmp_path / "model")
    assert isinstance(loop, CompiledModel)
    size = size_report(loop)
    assert size["layers per step"] == 1
    assert (size["d_model"], size["layers"]) == (12, 4) or kernel != Linear()
    for steps in (1, 2, 3, 12):
        model = compile(solver, steps=steps, **settings)
        found, expected = trajectory(loop, prompt, steps=steps), trajectory(model, prompt)
        torch.testing.assert_close(found.final, expected.final, rtol=0, atol=0)
        largest = float(expected.predictions.abs().max())
        apart = (found.predictions - expected.predictions).abs().max()
        assert float(apart) < 1e-13 * largest, "earlier steps are read by early exits"
        written_out = trajectory(loop.unrolled(steps), prompt)
        torch.testing.assert_close(written_out.predictions, found.predictions, rtol=0, atol=0)


def test_newton_does_not_drift_however_long_it_runs():
    """A pass squares the error of the inverse; what it does not see does not reach a prediction."""
    loop = compile(
        IterativeNewton(plain=True), features=4, ridge=1.0, to=LinearAttention(TOP), looped=True
    )
    exact = krr(PROMPT, ridge=1.0)
    for steps in (30, 200, 3000):
        found = loop.predict(PROMPT, steps)
        assert float((found - exact).abs().max()) < 1e-13 * float(exact.abs().max())


def test_heavy_ball_reaches_what_its_unrolled_version_does():
    exact = krr(PROMPT, ridge=1.0)
    loop, model = make("heavy-ball"), make("heavy-ball", looped=False, steps=150)
    errors = [float((f - exact).abs().max()) for f in (loop.predict(PROMPT, 150), model(PROMPT))]
    assert errors[0] < 2 * errors[1] + 1e-14
    assert errors[0] < 1e-12 * float(exact.abs().max())
    # The channel is replaced by a difference, in every pass; nothing accumulates.
    long = loop.predict(PROMPT, 1000)
    assert float((long - exact).abs().max()) < 1e-12 * float(exact.abs().max())


@pytest.mark.parametrize("causal", [False, True])
def test_cg_stays_at_the_solution_and_zero_stays_zero(causal):
    model, exact = make("cg", causal=causal), krr(PROMPT, ridge=1.0)
    found = trajectory(model, PROMPT, steps=200).predictions
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[20:], exact.expand(181, -1, -1, -1), rtol=1e-9, atol=1e-9)
    zero = Prompt(PROMPT.phi, torch.zeros_like(PROMPT.y), PROMPT.phi_query)
    assert trajectory(model, zero, steps=30).predictions.abs().max() == 0


def test_between_two_passes_only_variables_and_constants_are_alive():
    """Whatever else a pass wrote is gone, to the last bit."""
    model = make("cg")
    first, stop = model.transformer.config.loop
    stream = residual_stream(model, PROMPT, steps=5)
    supports, aggregator = slice(0, 12), 12
    for passes in range(5):
        after = stream[2 * (first + passes * (stop - first))]
        at = {"supports": after[:, supports], "queries": after[:, 13:]}
        alive = {name: int((x != 0).flatten(0, 1).any(0).sum()) for name, x in at.items()}
        # φ and a flag; α, r and p, of which α begins at 0
        assert alive == {"supports": 4 + 1 + (3 if passes else 2), "queries": 4 + 1}
        scalars = int((after[:, aggregator] != 0).any(0).sum())
        assert scalars == 1 + 3, "a flag, and rᵀr, c and s·c"


def test_states_and_layers_are_read_in_every_pass():
    model = make("cg")
    found = trajectory(model, PROMPT, steps=4, states=True)
    expected = reference(model, PROMPT, steps=4, states=True)
    torch.testing.assert_close(found.states["alpha"], expected.states["alpha"], rtol=0, atol=1e-9)
    assert {name: len(state) for name, state in found.states.items()} == {
        "alpha": 5,
        "r": 4,
        "p": 4,
    }
    written_out = model.unrolled(4)
    assert written_out.certificate.steps == 4
    assert not written_out.certificate.looped
    # One for α and p in each pass, and one for the last α.
    assert [head.multiplies for head in written_out.heads("matvec")] == [("alpha", "p")] * 4 + [
        ("alpha",)
    ]
    again = trajectory(written_out, PROMPT, states=True)
    torch.testing.assert_close(again.predictions, found.predictions, rtol=0, atol=0)
    head = written_out.heads("matvec")[2]
    edits = [ablate_head(head.layer, head.head)]
    cut = trajectory(model, PROMPT, steps=4, edits=edits).predictions
    torch.testing.assert_close(
        cut, trajectory(written_out, PROMPT, edits=edits).predictions, rtol=0, atol=0
    )
    torch.testing.assert_close(cut[:2], found.predictions[:2], rtol=0, atol=0)
    assert float((cut[3] - found.predictions[3]).abs().max()) > 1e-3


def test_a_written_out_model_is_saved_like_any_other(tmp_path):
    model = make("heavy-ball").unrolled(3)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    torch.testing.assert_close(again.predict(PROMPT), model.predict(PROMPT), rtol=0, atol=0)


def test_a_query_without_neighbours_does_not_grow_until_it_overflows():
    """Its row sum is 1, for which a step length tuned to the supports is too long if λ > 2."""
    points = torch.linspace(-0.3, 0.3, 9, dtype=torch.float64)[None, :, None]
    prompt = Prompt(points, points.sin(), torch.tensor([[[3.0], [-3.0]]], dtype=torch.float64))
    kernel, to = Gaussian(0.3), SoftmaxAttention(3.0, 9)
    for name in ("richardson", "chebyshev", "cg"):
        solver = make_solver(name, "row-sum")
        model = compile(solver, features=1, ridge=20.0, kernel=kernel, to=to, looped=True)
        stream = model.transformer.residual_stream(prompt.tokens(), 10, loops=150)
        assert float(stream.abs().max()) < 1e9
        exact = krr(prompt, ridge=20.0, kernel=kernel)
        torch.testing.assert_close(model.predict(prompt, 150), exact, rtol=0, atol=1e-15)


# ---------------------------------------------------------------------- solvers of one's own


class State(NamedTuple):
    alpha: Any
    memory: Any = None
    other: Any = None


@dataclass(frozen=True)
class SteepestDescent(Solver):
    """α ← α + (0.9γ + 0.01)·r with γ = rᵀr/rᵀAr: reductions, a reciprocal and a sum in every pass."""

    name = "steepest-descent"

    def init(self, m):
        return State(m.zeros())

    def step(self, m, s, t):
        r = m.target() - m.matvec(s.alpha)
        size = m.assume(m.dot(r, r), lambda: (1e-6, 1e6), "the residuals of these prompts")
        curvature = m.assume(m.dot(r, m.matvec(r)), lambda: (1e-6, 1e9), "of these prompts")
        step = 0.9 * size * m.reciprocal(curvature) + 0.01
        return State(m.bound(s.alpha + step * r, lambda: 1e3 * m.solution_norm(), "these prompts"))


@dataclass(frozen=True)
class Remembers(Solver):
    """Two products in a step. A fading memory of y is renewed at once, and read until the end."""

    name = "remembers"

    def init(self, m):
        return State(m.zeros(), 0.5 * m.target(), 3.0)

    def step(self, m, s, t):
        eta = 1 / m.interval("none")[1]
        r = m.target() - m.matvec(s.alpha)
        change = eta * (r - eta * m.matvec(r)) + 0.1 * eta * s.memory
        alpha = m.bound(s.alpha + change, lambda: 9 * m.solution_norm(), "a step is short")
        memory = m.bound(0.5 * s.memory + 0.1 * m.target(), m.solution_norm, "it fades")
        return State(alpha, memory, s.other)


@dataclass(frozen=True)
class Rotates(Solver):
    """Three vectors that take each other's places."""

    name = "rotates"

    def init(self, m):
        return State(m.zeros(), m.target(), 0.25 * m.target())

    def step(self, m, s, t):
        eta = 1 / m.interval("none")[1]
        alpha = s.alpha + eta * (m.target() - m.matvec(s.alpha)) + 0.01 * eta * s.memory
        alpha = m.bound(alpha, lambda: 9 * m.solution_norm(), "a step is short")
        return State(alpha, s.other, s.memory)


OWN = [SteepestDescent(), Remembers(), Rotates()]


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("solver", OWN, ids=lambda s: s.name)
@pytest.mark.parametrize(
    ("kernel", "to"),
    [
        (Linear(), LinearAttention(9.0)),
        (Linear(), LinearAttention(9.0, Exact())),
        (Linear(), LinearAttention(9.0, causal=True)),
        (Gaussian(0.7), SoftmaxAttention(1.0, 9)),
    ],
    ids=["linear", "gated", "causal", "softmax"],
)
def test_solvers_of_ones_own_loop(solver, kernel, to, outputs):
    prompt = PrescribedSpectrum(features=2, supports=9, condition=10, outputs=outputs)
    prompt = prompt.draw(5, seed=0).inside(max_norm=1.0)
    settings = {"features": 2, "outputs": outputs, "ridge": 1.0, "kernel": kernel, "to": to}
    loop = compile(solver, looped=True, **settings)
    for steps in (1, 2, 5):
        model = compile(solver, steps=steps, **settings)
        expected = trajectory(model, prompt).predictions
        found = trajectory(loop, prompt, steps=steps).predictions
        assert float((found - expected).abs().max()) < 1e-11 * float(expected.abs().max())
