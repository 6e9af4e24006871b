"""`LoopedProgram`: one step that every pass of a loop repeats, and what is done once before it.

    before   what starts the variables, and whatever is the same in every pass
    loop     carried variables → one step → the variables that the next pass finds

A step may end with operations that take long, such as a reciprocal, while the start of the next step
does not need their results yet. Where the start of the loop ends with the same operations, the loop may
be cut before them: `turned` carries their inputs over the cut instead, and the next pass does them
beside its own work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ridgeformer.program.ops import (
    Carried,
    Channel,
    Clamp,
    Hold,
    Invert,
    Multiply,
    Op,
    Program,
    inputs,
)


@dataclass(frozen=True)
class Variable:
    """A variable of a loop: what it is before the first pass, within a pass, and at its end."""

    name: str
    start: Channel | float
    """A number is the same for all outputs, and 0 also stands for the zero vector."""
    carried: Channel
    end: Channel


@dataclass(frozen=True)
class LoopedProgram(Program):
    """The states are those before the first pass and after a pass."""

    variables: tuple[Variable, ...] = ()
    before: int = 0
    """How many of the operations are done once, before the loop."""
    most_steps: int = 1
    """The bounds hold for so many steps."""
    steps_before: int = 0
    """How many steps are taken before the first pass; every pass is one more."""

    @property
    def steps(self) -> int:
        return self.most_steps

    @property
    def alpha(self) -> Variable:
        return next(v for v in self.variables if v.name == "alpha")


def arranged(program: LoopedProgram) -> LoopedProgram:
    """The same loop with as little as possible in a pass."""
    return hoisted(pruned(turned(program)))


def pruned(program: LoopedProgram) -> LoopedProgram:
    """Without what no iterate depends on."""
    by_end = {v.carried: v for v in program.variables}
    made = {op.out: op for op in program.ops}
    needed: set[Channel] = set()
    waiting = [program.alpha.carried]
    while waiting:
        channel = waiting.pop()
        if channel in needed:
            continue
        needed.add(channel)
        if channel in by_end:
            variable = by_end[channel]
            waiting.append(variable.end)
            if isinstance(variable.start, Channel):
                waiting.append(variable.start)
        else:
            waiting += inputs(made[channel])
    return with_variables(
        replace(program, ops=tuple(op for op in program.ops if op.out in needed)),
        (v for v in program.variables if v.carried in needed),
    )


def hoisted(program: LoopedProgram) -> LoopedProgram:
    """With everything before the loop that is the same in every pass."""
    moving = {v.carried for v in program.variables}
    for op in program.ops:
        if moving.intersection(inputs(op)):
            moving.add(op.out)
    once = [op for op in program.ops if op.out not in moving]
    each = [op for op in program.ops if op.out in moving]
    return replace(program, ops=(*once, *each), before=len(once))


def turned(program: LoopedProgram) -> LoopedProgram:
    """Cut before the work on scalars with which start and step both end, if a reciprocal is in it."""
    made = {op.out: op for op in program.ops}
    tail = common_tail(program, made)
    if not any(isinstance(made[end], Invert) for end in tail):
        return program
    ends = {v.end: v.carried for v in program.variables if v.end in tail}
    over = {(v.start, v.end): v for v in program.variables if v.end not in tail}
    again = {end: ends.get(end, replace(end, index=-1 - n)) for n, end in enumerate(tail)}
    norms = {again[end]: norm for end, norm in program.norms.items() if end in again}
    repeated: list[Op] = []
    for end, start in tail.items():
        first, last = made[start], made[end]
        places: dict[str, Any] = {"out": again[end]}
        for name, a, b in zip(input_names(last), inputs(first), inputs(last), strict=True):
            if b in tail:
                places[name] = again[b]
            elif a != b:
                if (a, b) not in over:
                    called = unused(b.name, program.variables, over.values())
                    carried = replace(b, index=-1 - len(tail) - len(over))
                    over[a, b] = Variable(called, a, carried, b)
                places[name] = over[a, b].carried
        repeated.append(replace(last, **places))
    gone = {*tail, *(v.carried for v in program.variables)}
    found = [Carried(v.carried, v.name) for v in over.values()]
    others = [op for op in program.ops if op.out not in gone]
    return with_variables(
        replace(
            program,
            ops=(*found, *sorted_by_need([*repeated, *others])),
            norms={**program.norms, **norms},
        ),
        over.values(),
    )


def common_tail(program: LoopedProgram, made: Mapping[Channel, Op]) -> dict[Channel, Channel]:
    """The scalars that a pass computes last, each with the one that the start computes in the same way.

    No vector depends on them within the pass, so that they can be computed in the next one.
    """
    tail: dict[Channel, Channel] = {}

    def compare(start: Channel | float, end: Channel) -> None:
        if isinstance(start, float) or end.kind != "scalar" or start == end:
            return
        first, last = made[start], made[end]
        if not isinstance(last, (Invert, Clamp, Hold, Multiply)) or not alike(first, last):
            return
        if tail.setdefault(end, start) == start:
            for a, b in zip(inputs(first), inputs(last), strict=True):
                compare(a, b)

    for variable in program.variables:
        compare(variable.start, variable.end)
    readers: dict[Channel, set[Channel]] = {end: set() for end in tail}
    for op in program.ops:
        for channel in inputs(op):
            if channel in readers:
                readers[channel].add(op.out)
    while wanted := [end for end in tail if not readers[end] <= set(tail)]:
        for end in wanted:  # what the rest of the pass reads cannot wait
            del tail[end]
    return tail


def alike(a: Op, b: Op) -> bool:
    """Whether two operations do the same, be it to different channels."""
    return type(a) is type(b) and all(
        value == getattr(b, name)
        for name, value in vars(a).items()
        if not isinstance(value, Channel)
    )


def input_names(op: Op) -> list[str]:
    """The fields of an operation on channels that hold its inputs, in the order of `inputs`."""
    return [
        name for name, value in vars(op).items() if isinstance(value, Channel) and name != "out"
    ]


def unused(name: str, *variables: Iterable[Variable]) -> str:
    """The name, with as many primes as it takes for no variable to have it."""
    taken = {v.name for some in variables for v in some}
    while name in taken:
        name += "'"
    return name


def sorted_by_need(operations: Iterable[Op]) -> list[Op]:
    """In an order in which each comes after what it reads; else as they are."""
    waiting, placed = list(operations), []
    made = {op.out for op in waiting}
    while waiting:
        ready = next(op for op in waiting if not made.intersection(inputs(op)))
        waiting.remove(ready)
        made.remove(ready.out)
        placed.append(ready)
    return placed


def with_variables(program: LoopedProgram, variables: Iterable[Variable]) -> LoopedProgram:
    kept = tuple(variables)
    starts = {v.name: v.start if isinstance(v.start, Channel) else None for v in kept}
    return replace(program, variables=kept, states=(starts, {v.name: v.end for v in kept}))
