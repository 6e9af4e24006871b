"""A looped program as a circuit: blocks before the loop, the blocks of one pass, and blocks after it.

A pass finds its variables in cells that are there when it begins, and from there on everything happens
as early as its inputs allow. What depends on none of them is done once, before the loop. The prediction
of an iterate is read by the pass that finds it, beside its own work, and after the last pass by the
same heads and neurons once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from ridgeformer.compiler.circuit import (
    TOKENS_AT,
    Cell,
    Circuit,
    Head,
    LinearWrite,
    MLPWrite,
    Readout,
    whole,
)
from ridgeformer.compiler.loop import Carried, Loop
from ridgeformer.program import ops
from ridgeformer.program.looped import LoopedProgram, Variable
from ridgeformer.program.ops import inputs

if TYPE_CHECKING:
    from ridgeformer.compiler.backends.lowering import Lowering


def looped_circuit(fresh: Lowering, program: LoopedProgram) -> Circuit:
    """The circuit of the loop; `fresh` has lowered nothing yet, and stays so."""
    first = 0
    while True:
        attempt = LoopLowering(deepcopy(fresh), program, first)
        needed = attempt.blocks_before()
        if needed <= first:
            return attempt.circuit()
        first = needed  # only a lowering tells how many blocks its constants take


class LoopLowering:
    """One attempt, with the loop from the block `first` on."""

    def __init__(self, lowering: Lowering, program: LoopedProgram, first: int) -> None:
        self.lowering, self.program, self.first = lowering, program, first
        self.s, lowering.looped = lowering.s, True
        self.taken: set[Cell] = {lowering.raw, lowering.phi, lowering.y}
        for op in program.ops[: program.before]:
            lowering.perform(op)
        self.befores = {v.name: self.begin(v) for v in program.variables}
        self.starts = {v.name: self.found(v, 2 * first - 1) for v in program.variables}
        bound = lowering.known_range(program.alpha.carried)
        self.prediction = lowering.fit(self.starts["alpha"], bound)
        for op in program.ops[program.before :]:
            if not isinstance(op, ops.Carried):
                lowering.perform(op)
        made = {v.name: lowering.settle(v.end, v.name) for v in program.variables}
        self.moving = self.dependents(self.starts.values())
        own = {name: cell for name, cell in made.items() if self.take(cell)}
        self.stop = self.blocks_of_pass([made[name] for name in made if name not in own])
        self.ends = own | {
            name: self.duplicate(cell, name, 2 * self.stop - 1)
            for name, cell in made.items()
            if name not in own
        }
        self.after = self.lowering.cell("vector", "alpha", 2 * self.stop - 1)
        self.last_prediction = lowering.fit(self.after, bound)
        self.s.kept.add(self.after)

    def begin(self, variable: Variable) -> Cell | None:
        """The cell in which the blocks before the loop leave the variable."""
        if variable.start == 0.0:
            return None
        if isinstance(variable.start, float):
            return self.number(variable.name, variable.start)
        cell = self.lowering.settle(variable.start, variable.name)
        constant = any(
            variable.start in inputs(op) for op in self.program.ops[self.program.before :]
        )
        if constant or cell in self.taken:
            cell = self.duplicate(cell, variable.name, self.s.mlp_time([whole(cell)]))
        self.taken.add(cell)
        return cell

    def number(self, name: str, value: float) -> Cell:
        cell = self.lowering.cell("scalar", name, self.s.mlp_time([self.s.constant()]))
        at_aggregator = cell.place == "aggregator"
        form = self.s.constant(value) if at_aggregator else self.s.common(value)
        for o in range(cell.width):
            write = LinearWrite(cell.written, form, cell, TOKENS_AT[cell.place], name, o)
            self.s.write(write)
        return cell

    def found(self, variable: Variable, time: int) -> Cell:
        """The variable as a pass finds it."""
        cell = self.lowering.cell(variable.carried.kind, variable.name, time)
        self.lowering.adopt(variable.carried, cell)
        return cell

    def duplicate(self, cell: Cell, name: str, time: int) -> Cell:
        """The same value in another cell."""
        copy = self.s.new(name, cell.place, cell.width, time, variable=name)
        self.s.write(LinearWrite(time, whole(cell), copy, TOKENS_AT[cell.place], name))
        return copy

    def take(self, cell: Cell) -> bool:
        """Takes the cell for a variable, unless it is another's, or never changes."""
        free = cell in self.moving and cell not in self.starts.values() and cell not in self.taken
        self.taken.add(cell)
        return free

    def blocks_of_pass(self, copied: list[Cell]) -> int:
        """The block after the last one of a pass, whose MLP does the copying."""
        times = [op.time for op in self.operations() if self.moving.intersection(written(op))]
        return max([*times, *(self.s.mlp_time([whole(cell)]) for cell in copied)]) // 2 + 1

    # ------------------------------------------------------------------ what depends on what

    def operations(self) -> list[Head | MLPWrite]:
        return sorted([*self.s.heads, *self.s.writes], key=lambda op: op.time)

    def dependents(self, roots: Iterable[Cell]) -> set[Cell]:
        """The cells that change from pass to pass."""
        moving = set(roots)
        events = [(op.time, op.reads, written(op)) for op in self.operations()]
        events += [(cell.written, (form,), [cell]) for cell, form in self.s.copies]
        for _, reads, cells in sorted(events, key=lambda event: event[0]):
            if any(part.cell in moving for form in reads for part in form):
                moving.update(cells)
        return moving

    def blocks_before(self) -> int:
        """How many blocks it takes until everything is there that never changes."""
        moving = self.dependents([*self.starts.values(), self.after])
        times = [op.time for op in self.operations() if not moving.intersection(written(op))]
        return max(times, default=-1) // 2 + 1

    # ------------------------------------------------------------------ the result

    def circuit(self) -> Circuit:
        lowering, variables = self.lowering, self.program.variables
        moving = self.dependents([*self.starts.values(), self.after])
        self.s.kept |= {
            part.cell
            for op in self.operations()
            if moving.intersection(written(op))
            for form in op.reads
            for part in form
            if part.cell not in moving and not part.cell.flag
        }
        self.s.readouts = [
            Readout(1, v.name, self.ends[v.name]) for v in variables if v.carried.kind == "vector"
        ] + [Readout(1, None, self.last_prediction)]
        first, last = self.prediction.written, self.last_prediction.written
        assert first - 2 * self.first == last - 2 * self.stop, "read alike in and after the loop"
        carried = tuple(
            Carried(
                self.befores[v.name],
                self.starts[v.name],
                self.ends[v.name],
                self.after if v.name == "alpha" else None,
            )
            for v in variables
        )
        if self.prediction.written == 2 * self.stop - 1:
            # The next pass clears it only when it writes its own.
            old, left = (
                replace(self.prediction, written=2 * b - 1) for b in (self.first, self.stop)
            )
            self.s.cells += [old, left]
            carried = (*carried, Carried(None, old, self.prediction, left))
        loop = Loop(self.first, self.stop, carried, (self.prediction, self.last_prediction))
        circuit = self.s.circuit(lowering.raw, lowering.y, lowering.silence())
        return replace(circuit, loop=loop)


def written(op: Head | MLPWrite) -> list[Cell]:
    if isinstance(op, Head):
        return [output.cell for output in op.outputs]
    return [op.cell, *(cell for cell, *_ in getattr(op, "also", ()))]
