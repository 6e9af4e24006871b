"""Channels are reused: a cell continues in those of a dead input, or is erased after its last reader.

Writes to the stream only add, so a channel is free again only after its last content was subtracted.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeformer.compiler.circuit import (
    TOKENS_AT,
    Cell,
    Circuit,
    Form,
    Head,
    LinearWrite,
    MLPWrite,
    Output,
    Part,
    whole,
)
from ridgeformer.types import Refusal

LEAST_KEPT = 1 / 16
"""A cell c·x + … may continue in the channels of x if |c| is at least this. (c − 1)·x is then added to
x, which leaves round-off of the size of x, not of c·x."""


def reuse(circuit: Circuit) -> Circuit:
    """Lets each cell continue in the channels of an input that dies with it, where there is one."""
    last = circuit.last_reads()
    continues: dict[Cell, Cell] = {}
    continued: set[Cell] = set()
    heads, writes = list(circuit.heads), list(circuit.writes)

    def dies_with(part: Part, by: Cell) -> bool:
        old = part.cell
        return (
            last.get(old, -1) <= by.written
            and old.width == by.width == part.width
            and old.place == by.place
            and old not in circuit.kept
            and old not in continued
            and not (old.dirty and not by.dirty)
            and (circuit.loop is None or circuit.loop.may_continue(old, by))
        )

    def take(cell: Cell, part: Part) -> None:
        continues[cell] = part.cell
        continued.add(part.cell)

    for cell, form in circuit.copies:
        rest = form
        for part in form:
            if part.coefficient == 1.0 and dies_with(part, cell):
                take(cell, part)
                rest = tuple(p for p in form if p is not part)
                break
        if rest:
            heads += copy_heads(circuit, cell, rest)
    for index, write in enumerate(writes):
        if isinstance(write, LinearWrite) and write.cell.written == write.time:
            for part in may_be_overwritten(write):
                enough = abs(part.coefficient) >= LEAST_KEPT
                if write.cell not in continues and enough and dies_with(part, write.cell):
                    take(write.cell, part)
                    writes[index] = replace(write, form=without_one(write.form, part.cell))
    return replace(
        circuit, heads=tuple(heads), writes=tuple(writes), copies=(), continues=continues
    )


def may_be_overwritten(write: LinearWrite) -> Form:
    """The parts in whose channels the write may continue: if it updates a variable, its earlier values alone.

    The other parts of an update may be far larger than the variable, which would take over their round-off.
    """
    variable = write.cell.variable
    earlier = tuple(p for p in write.form if variable is not None and p.cell.variable == variable)
    return earlier or write.form


def without_one(form: Form, cell: Cell) -> Form:
    """The form minus the cell itself, which is in the channels already."""
    joined = (
        Part(p.coefficient - 1.0, p.cell, p.offset, p.width) if p.cell is cell else p for p in form
    )
    return tuple(p for p in joined if p.coefficient != 0.0)


def copy_heads(circuit: Circuit, cell: Cell, form: Form) -> list[Head]:
    """cell += form by attention, where the form is multiplied twice by the aggregator's flag, 1."""
    if cell.place == "everywhere":
        raise Refusal(
            f"{cell.name} cannot be compiled: it is a sum with several terms that stay in use, and "
            "attention cannot copy what a token holds."
        )
    one, time = circuit.constant(), cell.written
    if cell.place == "aggregator":
        written = (Output(form, cell),)
        return [Head(time, "copy", "copy", "aggregator", "aggregator", (one,), (one,), written)]
    heads = []
    for o in range(cell.width):
        q = tuple(Part(p.coefficient, p.cell, p.offset + o, 1) for p in form)
        written = (Output(one, cell, o),)
        heads.append(Head(time, "copy", "copy", "data", "aggregator", (q,), (one,), written))
    return heads


def erase(circuit: Circuit) -> Circuit:
    """Clears each cell's channels after its last reader, so that others can use them."""
    end, erasures = circuit.end, circuit.erasures()
    cleared: list[MLPWrite] = [
        LinearWrite(int(time), whole(cell, -1.0), cell, TOKENS_AT[cell.place], f"erase {cell.name}")
        for cell, time in erasures.items()
        if time <= end
    ]
    return replace(circuit, writes=(*circuit.writes, *cleared))
