"""Newton's iteration and GD++ in weights: depth, width, floors, and what cannot be compiled."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
import torch
from numpy_executor import run

import ridgeformer as rf
from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Polynomial
from ridgeformer.models import load, trajectory
from ridgeformer.solvers import GradientDescentPlus, IterativeNewton, krr, make_solver, solve
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.portable

LAYERS = {1e2: (9, 9), 1e3: (10, 11), 1e4: (12, 13), 1e6: (15, 16)}
"""By condition number, the layers within which the error must be 1e-6 and 1e-9."""


def task_of(condition, **options):
    return PrescribedSpectrum(
        features=8, supports=24, condition=condition, ridge=1.0, queries=4, **options
    )


def model_of(solver, condition, steps, features=8, **options):
    to = LinearAttention(condition - 1)
    return compile(solver, features=features, steps=steps, ridge=1.0, to=to, **options)


def relative(found, exact):
    return float((found - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("spectrum", ["geometric", "uniform"])
@pytest.mark.parametrize("condition", LAYERS)
def test_newton_reaches_its_accuracy_in_few_layers(condition, spectrum):
    prompt = task_of(condition, shape=spectrum).draw(32, seed=0)
    exact = krr(prompt, ridge=1.0)
    for layers, tolerance in zip(LAYERS[condition], (1e-6, 1e-9), strict=True):
        model = model_of(IterativeNewton(), condition, layers - 2)
        assert len(model.transformer.blocks) == layers
        assert relative(model.predict(prompt), exact) <= tolerance


@pytest.mark.parametrize("outputs", [1, 7])
@pytest.mark.parametrize("name", ["newton", "gd++"])
def test_width_heads_and_registers(name, outputs):
    model = model_of(make_solver(name), 100, 5, outputs=outputs)
    config = model.transformer.config
    assert config.d_model == 2 * 8 + outputs + 3
    assert config.n_heads == {"newton": 1, "gd++": 2}[name]
    assert (config.d_mlp, config.n_registers) == (0, 8)
    assert model.certificate.space == "operator"
    # The registers' features are √λ·e_i, and the inverse itself is what they hold in the end.
    roles = [head.roles for head in model.heads()]
    assert roles[0] == ("copy",)
    assert model.heads(role="operator")
    assert model.heads(role="prediction")


def extended(prompt, ridge):
    """The exact predictions, in 50 digits."""
    with mpmath.workdps(50):
        values = []
        for phi, y, query in zip(prompt.phi, prompt.y, prompt.phi_query, strict=True):
            X = mpmath.matrix(phi.tolist())
            system = X.T * X + ridge * mpmath.eye(phi.shape[1])
            w = mpmath.lu_solve(system, X.T * mpmath.matrix(y.tolist()))
            values.append([[float(v)] for v in mpmath.matrix(query.tolist()) * w])
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
@pytest.mark.parametrize(
    "solver", [IterativeNewton(), IterativeNewton(plain=True), GradientDescentPlus()], ids=str
)
def test_round_off_stays_near_that_of_a_direct_solve(solver, condition):
    """Run on for 30 steps, it neither drifts nor ends worse than ten times a backward-stable solve."""
    prompt = task_of(condition).draw(4, seed=1)
    exact = extended(prompt, 1.0)
    unit = np.finfo(np.float64).eps
    direct = krr(prompt, ridge=1.0)
    # What a backward-stable solver may lose, or lost here if that is more.
    allowed = max(unit * condition, relative(direct, exact))
    found = trajectory(model_of(solver, condition, 30), prompt)
    for step in (27, 28, 29, 30):
        assert relative(found.predictions[step], exact) <= 10 * allowed


@pytest.mark.parametrize("name", ["newton", "gd++"])
def test_numpy_runs_the_saved_file(tmp_path, name):
    task = task_of(1e3, outputs=2)
    prompt = task.draw(3, seed=0)
    model = model_of(make_solver(name), 1e3, 9, outputs=2)
    model.save(tmp_path / "m")
    expected = run(tmp_path / "m", *(t.numpy() for t in (prompt.phi, prompt.y, prompt.phi_query)))
    for one in (model, load(tmp_path / "m")):
        np.testing.assert_allclose(
            one.predict(prompt).numpy(), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
        )


@pytest.mark.parametrize("name", ["newton", "gd++"])
def test_every_step_is_read_from_the_stream(name):
    """Early steps of Newton's iteration are read through the last blocks, in their own unit."""
    prompt = task_of(50).draw(3, seed=2)
    solver = make_solver(name)
    long = model_of(solver, 50, 6)
    seen = trajectory(long, prompt)
    assert seen.predictions[0].abs().max() == 0
    for steps in range(1, 7):
        short = model_of(solver, 50, steps).predict(prompt)
        torch.testing.assert_close(seen.predictions[steps], short, rtol=1e-11, atol=1e-12)


def test_registers_hold_the_inverse():
    """√λ·X at register i is √λ times the i-th column of the inverse, in the model's unit."""
    prompt = task_of(20).draw(2, seed=0)
    model = model_of(IterativeNewton(), 20, 8)
    entry = model.sites["states"]["inverse"][-1]
    record = rf.Record.of([entry["site"]])
    with torch.inference_mode():
        model.transformer.residual_stream(prompt.tokens(), prompt.supports + 1, [record])
    held = entry["scale"] * record.values[entry["site"]][:, :8][..., entry["columns"]]
    gram = prompt.phi.mT @ prompt.phi + torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(held, torch.linalg.inv(gram), rtol=1e-9, atol=1e-11)


def test_polynomial_kernels_go_through_the_same_door():
    g = torch.Generator().manual_seed(0)
    phi, query = (torch.randn(2, n, 3, generator=g, dtype=torch.float64) / 3 for n in (10, 2))
    prompt = Prompt(phi, torch.randn(2, 10, 1, generator=g, dtype=torch.float64), query)
    kernel = Polynomial(2, 0.5)
    to = LinearAttention(20.0, products=Exact())
    for solver in (IterativeNewton(), GradientDescentPlus()):
        model = compile(solver, features=3, steps=9, ridge=0.3, kernel=kernel, to=to)
        exact = krr(prompt, ridge=0.3, kernel=kernel)
        assert relative(model.predict(prompt), exact) < 1e-9


def test_gd_plus_plus_needs_fewer_layers():
    for condition, (layers, _) in LAYERS.items():
        steps = theory.steps_needed(theory.gd_plus_factor, condition, 1e-6)
        assert steps + 1 <= layers - 2
        prompt = task_of(condition).draw(8, seed=0)
        model = model_of(GradientDescentPlus(), condition, steps)
        assert relative(model.predict(prompt), krr(prompt, ridge=1.0)) < 1e-6


@pytest.mark.parametrize("name", ["newton", "gd++"])
@pytest.mark.parametrize(
    ("to", "message"),
    [
        (SoftmaxAttention(1.0, 8), "linear attention lets each of them read all supports"),
        (LinearAttention(9.0, causal=True), "without `causal=True`"),
    ],
)
def test_registers_need_linear_attention_that_sees_all_supports(name, to, message):
    kernel = rf.Exponential() if isinstance(to, SoftmaxAttention) else None
    with pytest.raises(Refusal, match=message):
        compile(make_solver(name), features=3, steps=3, ridge=1.0, kernel=kernel, to=to)


class OwnState(NamedTuple):
    alpha: Any
    inverse: Any


@dataclass(frozen=True)
class Own(rf.Solver):
    """A user's iteration, which differs from Newton's in one line."""

    kind: str = "newton"
    name = "own"

    def init(self, m):
        return OwnState(m.zeros(), None)

    def step(self, m, s, t):
        if s.inverse is None:
            X = 0.1 * m.identity()
        elif self.kind == "product alone":
            X = m.product(s.inverse, s.inverse)
        elif self.kind == "of two operators":
            X = 2 * s.inverse - 0.1 * m.identity() - m.product(s.inverse, s.inverse)
        else:
            X = 2 * s.inverse - m.product(s.inverse, s.inverse)
        alpha = m.apply(X, m.target())
        if self.kind == "no residual":
            alpha = alpha + m.apply(X, alpha)
        if self.kind == "every second":
            alpha = alpha if t % 2 else alpha + m.apply(X, m.target() - m.matvec(alpha))
        return OwnState(alpha, X)


def test_a_users_own_operators_compile():
    prompt = task_of(10).draw(2, seed=0)
    model = model_of(Own(), 10, 5)
    expected = solve(Own(), prompt, steps=5, ridge=1.0)
    assert len(model.transformer.blocks) == 6  # one clears, four double, one predicts
    assert float(trajectory(model, prompt).distance(expected).max()) < 1e-11


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("product alone", "attention adds to what is there"),
        ("of two operators", "not a multiple of one operator plus products"),
        ("no residual", "residuals y − Aα, and nothing else"),
        ("every second", "formed in another way"),
    ],
)
def test_what_tokens_cannot_hold_is_refused(kind, message):
    with pytest.raises(Refusal, match=message):
        model_of(Own(kind), 10, 3)
