"""Looped programs: one step for every step, and refusals of what is not one."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from ridgeformer.program import interpret, ranges, trace_loop
from ridgeformer.program.ops import Carried, Invert
from ridgeformer.program.trace_loop import AnyStep
from ridgeformer.solvers import ConjugateGradient, Solver, make_solver, solve
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.types import Refusal

SETTINGS = {"steps": 300, "ridge": 1.0}
LOOPED = [
    ("gd", "none"),
    ("richardson", "jacobi"),
    ("heavy-ball", "none"),
    ("chebyshev", "none"),
    ("chebyshev", "jacobi"),
    ("cg", "none"),
    ("cg", "jacobi"),
]


class State(NamedTuple):
    alpha: Any
    extra: Any = None


class Own(Solver):
    name = "own"

    def init(self, m):
        return State(m.zeros())


@pytest.mark.parametrize(("name", "precondition"), LOOPED)
def test_a_loop_means_what_the_solver_does(name, precondition):
    task = PrescribedSpectrum(condition=30, supports=20, features=6, outputs=2)
    prompt, top = task.draw(5, seed=0), task.max_eigenvalue
    solver = make_solver(name, precondition)
    program = trace_loop(solver, max_eigenvalue=top, **SETTINGS)
    for steps in (1, 2, 6):
        found = interpret(program, prompt, check=True, steps=steps)
        expected = solve(solver, prompt, steps=steps, ridge=1.0, max_eigenvalue=top)
        torch.testing.assert_close(found.predictions, expected.predictions, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("name", "precondition"), LOOPED)
def test_the_ranges_of_a_loop_hold_in_every_pass(name, precondition):
    """Measured on the solver's own vectors, over many steps."""
    task = PrescribedSpectrum(condition=100, supports=20, features=6)
    prompt, top = task.draw(5, seed=0), task.max_eigenvalue
    solver = make_solver(name, precondition)
    program = trace_loop(solver, max_eigenvalue=top, **SETTINGS)
    bounds = ranges(program)
    run = solve(solver, prompt, steps=60, ridge=1.0, max_eigenvalue=top, states=True)
    for variable in program.variables:
        low, high = bounds[variable.carried]
        assert -float("inf") < low <= high < float("inf")
        if variable.name in run.states:
            assert float(run.states[variable.name].norm(dim=2).max()) <= high


def test_a_program_with_a_loop_is_told_how_often():
    task = PrescribedSpectrum(features=3, supports=8)
    program = trace_loop(make_solver("gd"), max_eigenvalue=task.max_eigenvalue, **SETTINGS)
    for steps in (None, -1, 301):
        with pytest.raises(Refusal, match="between 0 and 300"):
            interpret(program, task.draw(2, seed=0), steps=steps)


def test_reciprocals_at_the_end_of_a_step_are_left_to_the_next_pass():
    program = trace_loop(ConjugateGradient(), max_eigenvalue=99.0, **SETTINGS)
    assert {v.name for v in program.variables} == {"alpha", "r", "p", "rᵀr", "c", "scale·c"}
    made = {op.out: op for op in program.ops}
    assert not any(isinstance(made[v.end], Invert) for v in program.variables)
    assert sum(isinstance(op, Carried) for op in program.ops) == len(program.variables)
    # What does not change is done once, and nothing is done twice.
    once = {op.out for op in program.ops[: program.before]}
    assert len({op.out for op in program.ops}) == len(program.ops)
    assert not any(isinstance(op, Carried) for op in program.ops[: program.before])
    assert {v.start for v in program.variables if not isinstance(v.start, float)} <= once


@dataclass(frozen=True)
class ReadsItsReciprocal(Own):
    """Ends with the reciprocal with which it starts, but needs it at once as well."""

    name = "reads-its-reciprocal"

    def size(self, m, r):
        known = m.assume(m.dot(r, r), lambda: (1e-9, 1e9), "of these prompts")
        return m.reciprocal(known)

    def init(self, m):
        return State(m.zeros(), self.size(m, m.target()))

    def step(self, m, s, t):
        r = m.target() - m.matvec(s.alpha)
        size = self.size(m, r)
        change = 0.01 * r + 1e-3 * size * r + 1e-3 * s.extra * r
        return State(m.bound(s.alpha + change, m.solution_norm, "these steps are short"), size)


def test_what_the_rest_of_a_step_reads_is_not_left_to_the_next_pass():
    task = PrescribedSpectrum(condition=30, supports=20, features=6)
    prompt, top = task.draw(5, seed=0), task.max_eigenvalue
    program = trace_loop(ReadsItsReciprocal(), max_eigenvalue=top, **SETTINGS)
    assert {v.name for v in program.variables} == {"alpha", "extra"}
    found = interpret(program, prompt, steps=4)
    expected = solve(ReadsItsReciprocal(), prompt, steps=4, ridge=1.0, max_eigenvalue=top)
    torch.testing.assert_close(found.predictions, expected.predictions, rtol=1e-9, atol=1e-10)


@dataclass(frozen=True)
class Decaying(Own):
    """A step length that falls with t."""

    name = "decaying"

    def step(self, m, s, t):
        return State(s.alpha + 0.01 / t * (m.target() - m.matvec(s.alpha)))


@dataclass(frozen=True)
class Looks(Own):
    """Reads t where no arithmetic notices."""

    name = "looks"

    def step(self, m, s, t):
        eta = [0.1, 0.2, *[0.3] * 500][t]
        return State(m.bound(s.alpha + eta * (m.target() - m.matvec(s.alpha)), lambda: 9.0, "so"))


@dataclass(frozen=True)
class Unbounded(Own):
    name = "unbounded"

    def step(self, m, s, t):
        return State(s.alpha + 0.01 * (m.target() - m.matvec(s.alpha)))


@dataclass(frozen=True)
class Divides(Own):
    """Divides by a number of its state, which a loop holds as a scalar."""

    name = "divides"

    def init(self, m):
        return State(m.zeros(), 1.0)

    def step(self, m, s, t):
        eta = 0.1 / s.extra
        return State(s.alpha + eta * (m.target() - m.matvec(s.alpha)), s.extra + 1)


@dataclass(frozen=True)
class Switches(Own):
    """Remembers by a word whether it has begun."""

    name = "switches"

    def init(self, m):
        return State(m.zeros(), "new")

    def step(self, m, s, t):
        return State(m.bound(s.alpha + 0.1 * m.target(), lambda: 1.0, "so"), "old")


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (Decaying(), "its step depends on the number t of the step"),
        (Looks(), "its step depends on the number t of the step"),
        (Unbounded(), "nothing bounds alpha over the steps; state a bound with m.bound"),
        (Divides(), "divide with m.reciprocal"),
        (Switches(), "its extra changes, and is neither a vector nor a number"),
        (make_solver("block-cg"), "its state is a matrix"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_cannot_be_looped_is_refused_with_the_reason(solver, message):
    with pytest.raises(Refusal, match=f"{solver.name} cannot be looped: .*{message}"):
        ranges(trace_loop(solver, max_eigenvalue=9.0, **SETTINGS))


def test_bounds_may_know_the_largest_step_and_nothing_else():
    t = AnyStep(7)
    for ask in (lambda: t + 1, lambda: 2 * t, lambda: t == 1, lambda: bool(t), lambda: t % 2):
        with pytest.raises(Refusal, match="number t of the step"):
            ask()
    t.told = True
    assert (t + 1, 2 * t, t == 7, t % 2, float(t), t**2, 15 - t) == (8, 14, True, 1, 7.0, 49, 8)
