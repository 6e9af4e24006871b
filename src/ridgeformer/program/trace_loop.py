"""Tracing one step that serves for every step: what a loop repeats."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ridgeformer.program import ops
from ridgeformer.program.looped import LoopedProgram, Variable, arranged, with_variables
from ridgeformer.program.ops import Channel
from ridgeformer.program.trace import Scope, Space, Traced, TracingMachine
from ridgeformer.solvers import Solver
from ridgeformer.solvers.machine import Bounds
from ridgeformer.types import Refusal


class StepSeen(Refusal):
    """A step asked which step it is."""

    def __init__(self) -> None:
        super().__init__(
            "its step depends on the number t of the step, and a loop repeats one step for all t; keep "
            "what changes in the state, as a number or a vector that the step renews."
        )


class AnyStep(int):
    """The number of a step that is not known: only a bound may ask, and is told the largest."""

    told = False

    def tell(self) -> int:
        if not self.told:
            raise StepSeen
        return int.__int__(self)


def answering(name: str, swapped: bool) -> Callable[..., Any]:
    compute = getattr(operator, name)

    def method(self: AnyStep, *others: Any) -> Any:
        values = (self.tell(), *others)
        return compute(*(reversed(values) if swapped else values))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(AnyStep, f"__{_name}__", answering(_name, swapped=False))
    setattr(AnyStep, f"__r{_name}__", answering(_name, swapped=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "index"):
    setattr(AnyStep, f"__{_name}__", answering(_name, swapped=False))
for _name, _of in (("bool", bool), ("float", float), ("int", int), ("hash", hash)):
    setattr(AnyStep, f"__{_name}__", lambda self, of=_of: of(self.tell()))


class LoopMachine(TracingMachine):
    """Records a step that does not know its number; its bounds are for the last one."""

    step: AnyStep

    def told(self, bounds: Callable[[], Any]) -> Callable[[], Any]:
        def with_number() -> Any:
            self.step.told = True
            try:
                return bounds()
            finally:
                self.step.told = False

        return with_number

    def unit(self, x: Traced, bounds: Bounds, power: float = 0.5) -> Traced:
        return super().unit(x, self.told(bounds), power)

    def assume(self, x: Traced, bounds: Bounds, why: str) -> Traced:
        return super().assume(x, self.told(bounds), why)

    def bound(self, v: Traced, norm: Callable[[], float], why: str) -> Traced:
        return super().bound(v, self.told(norm), why)


def trace_loop(
    solver: Solver,
    *,
    steps: int,
    ridge: float,
    max_eigenvalue: float,
    dtype: str = "float64",
    space: Space = "dual",
    scope: Scope | None = None,
) -> LoopedProgram:
    """The program of a loop that runs the solver, with bounds for up to `steps` steps.

    A step that asks for its number t is refused: a loop repeats one step. Bounds may depend on t; those
    of a later step must hold for the earlier ones as well.
    """
    if steps < 1:
        raise Refusal(f"A program needs at least one step, got {steps}.")

    def run(most: int, constant: frozenset[str], names: dict[int, str]) -> LoopedProgram:
        machine = LoopMachine(ridge, max_eigenvalue, dtype, space, names, scope)
        machine.step = AnyStep(most)
        variables = record_pass(solver, machine, constant)
        program = LoopedProgram(
            solver.name,
            tuple(machine.ops),
            (),
            ridge,
            max_eigenvalue,
            machine.target_norm(),
            machine.norms,
            machine.scope.row_sums,
            solver.smooths,
            most_steps=most,
            steps_before=solver.steps_before_loop,
        )
        return with_variables(program, variables)

    try:
        # What a step leaves as it is is no variable, and only a finished step says so.
        constant: frozenset[str] = frozenset()
        while True:
            program = run(steps, constant, {})
            same = frozenset(v.name for v in program.variables if v.end == v.carried)
            if not same:
                break
            constant |= same
        found = {v.carried for v in program.variables}
        names = {
            channel.index: v.name
            for v in program.variables
            for channel in (v.start, v.end)
            if isinstance(channel, Channel) and channel not in found
        }
        program = run(steps, constant, names)
        if run(1, constant, names).ops != program.ops:  # t was read where nothing could notice
            raise StepSeen
    except Refusal as refusal:
        raise Refusal(f"{solver.name} cannot be looped: {refusal}") from refusal
    return arranged(program)


def record_pass(
    solver: Solver, machine: LoopMachine, constant: frozenset[str]
) -> tuple[Variable, ...]:
    """Runs the start and one step on the machine; those names are constants, and not carried."""
    state = solver.loop_start(machine)
    start = {
        name: first_value(value)
        for name, value in state._asdict().items()
        if isinstance(value, (Traced, int, float)) and name not in constant
    }
    carried = {
        name: machine.traced(
            lambda out, name=name: ops.Carried(out, name),
            value.kind if isinstance(value := getattr(state, name), Traced) else "scalar",
            name,
            name,
        )
        for name in start
    }
    try:
        after = solver.step(machine, state._replace(**carried), machine.step)
    except TypeError as error:
        raise Refusal(
            f"a step does more with its state than the machine can ({error}); divide with m.reciprocal, "
            "and compute numbers that never change in `init`."
        ) from error
    variables = []
    for name, value in after._asdict().items():
        if name in carried:
            end = last_channel(machine, name, value)
            variables.append(Variable(name, start[name], carried[name].channel(), end))
        elif value is not getattr(state, name) and value != getattr(state, name):
            raise Refusal(f"its {name} changes, and is neither a vector nor a number.")
    return tuple(variables)


def first_value(value: Traced | float) -> Channel | float:
    if not isinstance(value, Traced):
        return float(value)
    return value.channel() if value.terms else value.constant


def last_channel(machine: LoopMachine, name: str, value: Traced | float) -> Channel:
    if not isinstance(value, Traced):
        value = Traced(machine, "scalar", (), float(value))
    if not value.terms and value.kind != "scalar":
        raise Refusal(f"its {name} is 0 after every step; leave it out of the state.")
    return value.channel()
