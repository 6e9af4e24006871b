"""Programs: the traced form of each solver means what the solver does."""

import numpy as np
import pytest
import torch

from ridgeformer.kernels import Linear
from ridgeformer.program import Scope, interpret, largest, ranges, trace
from ridgeformer.program.interpret import evaluate
from ridgeformer.program.ops import Channel, Clamp, Hold
from ridgeformer.program.tables import near_one, reciprocal_table, unit_table
from ridgeformer.solvers import SOLVERS, ConjugateGradient, EagerMachine, Solver, make_solver, solve
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.types import Refusal

TRACED = [
    ("gd", "none"),
    ("richardson", "none"),
    ("richardson", "jacobi"),
    ("heavy-ball", "none"),
    ("chebyshev", "none"),
    ("chebyshev", "jacobi"),
    ("cg", "none"),
    ("cg", "jacobi"),
    ("cg-predicted", "none"),
    ("newton", "none"),
    ("gd++", "none"),
]
OPERATORS = Scope(operators=True)


@pytest.mark.parametrize(("name", "precondition"), TRACED)
@pytest.mark.parametrize("outputs", [1, 2])
def test_program_equals_solver(name, precondition, outputs):
    task = PrescribedSpectrum(condition=30, supports=20, features=6, outputs=outputs)
    prompt, top = task.draw(5, seed=0), task.max_eigenvalue
    solver = make_solver(name, precondition)
    program = trace(solver, steps=5, ridge=1.0, max_eigenvalue=top, scope=OPERATORS)
    found = interpret(program, prompt, check=True)
    expected = solve(solver, prompt, steps=5, ridge=1.0, max_eigenvalue=top)
    torch.testing.assert_close(found.predictions, expected.predictions, rtol=1e-9, atol=1e-10)


def test_every_solver_is_traced_or_refused_with_a_reason():
    traced = {name for name, _ in TRACED}
    for name in SOLVERS:
        if name not in traced | {"nadaraya-watson"}:
            with pytest.raises(Refusal, match=f"{name} cannot be compiled: .*vectors and scalars"):
                trace(make_solver(name), steps=2, ridge=1.0, max_eigenvalue=1.0)


@pytest.mark.parametrize("condition", [3.0, 1e3, 1e6])
def test_stated_ranges_hold_before_convergence(condition):
    task = PrescribedSpectrum(condition=condition, supports=40, features=12)
    program = trace(ConjugateGradient(), steps=6, ridge=1.0, max_eigenvalue=task.max_eigenvalue)
    assert any(isinstance(op, Clamp) for op in program.ops)
    interpret(program, task.draw(20, seed=0), check=True)


def test_a_wrong_range_is_noticed():
    task = PrescribedSpectrum(condition=100, supports=20)
    program = trace(ConjugateGradient(), steps=3, ridge=1.0, max_eigenvalue=0.01)
    with pytest.raises(Refusal, match="outside"):
        interpret(program, task.draw(5, seed=0), check=True)


@pytest.mark.parametrize(("name", "precondition"), TRACED)
def test_range_analysis_bounds_every_channel(name, precondition):
    task = PrescribedSpectrum(condition=200, supports=30, features=8, outputs=2)
    prompt = task.draw(10, seed=1)
    solver = make_solver(name, precondition)
    program = trace(solver, steps=6, ridge=1.0, max_eigenvalue=task.max_eigenvalue, scope=OPERATORS)
    machine, values = EagerMachine(prompt, Linear(), 1.0), {}
    bounds = ranges(program)
    for op in program.ops:
        values[op.out] = evaluate(op, values, machine)
        size = values[op.out]
        if op.out.kind == "vector":
            size = size.norm(dim=1)
        elif op.out.kind == "operator":
            size = torch.linalg.matrix_norm(size, 2)
        low, high = bounds[op.out]
        assert float(size.max()) <= high * (1 + 1e-9), op
        if op.out.kind != "vector":
            assert float(size.min()) >= low - 1e-9 * abs(low), op
    assert largest(program, bounds) < 1e60


def test_a_division_without_a_stated_range_is_refused():
    class Careless(Solver):
        name = "careless"

        def init(self, m):
            return ConjugateGradient().init(m)

        def step(self, m, s, t):
            gamma = m.dot(s.r, s.r) * m.reciprocal(m.dot(s.p, m.matvec(s.p)))
            return s._replace(alpha=s.alpha + gamma * s.p)

    with pytest.raises(Refusal, match="no certified positive range"):
        trace(Careless(), steps=1, ridge=1.0, max_eigenvalue=1.0)


@pytest.mark.parametrize(("lo", "hi"), [(0.5, 4e3), (0.5, 4e6), (1 / 16, 16), (1e-4, 1e9)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_reciprocals_are_accurate_over_any_range(lo, hi, dtype):
    """The trap: with hinges that open to the right nothing would be left beyond (hi/lo)² = 1/u."""
    r = reciprocal_table(lo, hi)
    x = (
        torch.logspace(np.log10(lo), np.log10(hi), 20001, dtype=torch.float64)
        .to(dtype)
        .clamp(lo, hi)
    )
    z = r.table(x)
    e = 1 - x * z
    guess = float(e.abs().max())
    assert guess < 5e-3
    found = z * (1 + r.a * e) * (1 + r.b * e + r.c * e**2) * (1 + r.d * e + r.f * e**2)
    unit = torch.finfo(dtype).eps
    assert float((found.double() * x.double() - 1).abs().max()) < 6 * unit


def test_the_unit_table_is_near_the_inverse_root_and_flat_outside():
    table = unit_table(1e-30, 1e6)
    x = torch.logspace(-30, 6, 5001, dtype=torch.float64)
    ratio = table(x) * x.sqrt()
    assert float(ratio.min()) > 0.88
    assert float(ratio.max()) < 1.13
    edges = table(torch.tensor([0.0, 1e-40, 1e-30, 1e6, 1e9], dtype=torch.float64))
    assert abs(float(edges[0] / edges[2]) - 1) < 1e-12
    assert edges[3] == edges[4]


def test_a_held_number_rises_from_nothing_to_itself():
    x = Channel(0, "x", "scalar")
    values = torch.linspace(0.0, 0.3, 3001, dtype=torch.float64)
    prompt = PrescribedSpectrum(features=2, supports=3).draw(1, seed=0)
    machine = EagerMachine(prompt, Linear(), 1.0)
    found = evaluate(Hold(Channel(1, "held", "scalar"), x, 0.1, 0.2), {x: values}, machine)
    expected = np.interp(values.numpy(), [0.0, 0.1, 0.2, 0.3], [0.0, 0.0, 0.2, 0.3])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-15)


def test_programs_read_well():
    program = trace(ConjugateGradient(), steps=1, ridge=1.0, max_eigenvalue=9.0)
    assert "clamp(" in program.listing()
    assert "K " in program.listing()
    assert len(str(program).splitlines()) <= 10


def test_the_reciprocal_near_one_is_exact_there_and_within_bounds_elsewhere():
    radius, most = 1e-6, 1e4
    hinges = near_one(radius, most)

    def inverse(q):
        bent = np.maximum(0, np.multiply.outer(q, hinges.slopes) + hinges.biases)
        return q + (bent * hinges.weights).sum(-1)

    close = 1 - np.linspace(0, radius, 999)
    assert np.abs(close * inverse(close) - 1).max() < 1e-15
    off = 10.0 ** np.arange(-7, -1)
    for q in (1 + off, 1 - off):  # the square of the distance, as one step of Newton's, or less
        assert (np.abs(q * inverse(q) - 1) < off**2 + 1e-15).all()
    assert np.abs(inverse(np.array([0.1, 0.25])) - 4).max() < 1e-9
    far = np.geomspace(2, most, 99)
    assert np.abs(far * inverse(far) - 1).max() < 0.1
