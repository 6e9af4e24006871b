"""A loop closes: what is carried ends in the channels where the pass found it.

Writes only add. A variable's new value can be written where the old one is in three ways: the old one
was erased before; or both happen in one MLP, which adds the difference; or attention adds to the old
value in place. Where the old value is still read when attention writes the new one, the old value first
moves to other channels, in the first MLP of the pass, so that its own are free.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeformer.compiler.circuit import (
    TOKENS_AT,
    Cell,
    Circuit,
    Form,
    Head,
    HingeWrite,
    LinearWrite,
    MLPWrite,
    Output,
    ProductWrite,
    added,
    is_cell,
    whole,
)
from ridgeformer.compiler.loop import Carried


def make_way(circuit: Circuit) -> Circuit:
    """Moves the old value of a variable, or the new one, where one would be written over the other."""
    if circuit.loop is None:
        return circuit
    for variable in circuit.loop.carried:
        if not free_in_time(circuit, variable):
            first_mlp = 2 * circuit.loop.first + 1
            if variable.end.written > first_mlp:
                circuit = old_value_moved(circuit, variable.start, first_mlp)
            else:
                circuit = new_value_moved(circuit, variable)
    return circuit


def free_in_time(circuit: Circuit, variable: Carried) -> bool:
    """Whether the new value can be written to the channels of the old one."""
    start, end = variable.start, variable.end
    last = circuit.last_reads().get(start, start.written + 1)
    if end.written % 2:  # an MLP adds the difference
        return last <= end.written
    in_place = any(
        cell is end and any(is_cell((part,)) and part.cell is start for part in form)
        for cell, form in circuit.copies
    )
    return last <= end.written if in_place else mlp_of(last) < end.written


def mlp_of(time: int) -> int:
    """The MLP of the same block."""
    return time + 1 - time % 2


def old_value_moved(circuit: Circuit, start: Cell, time: int) -> Circuit:
    """From the given MLP on, the value that the pass found is in other channels."""
    moved = replace(start, written=time)
    copied = LinearWrite(time, whole(start), moved, TOKENS_AT[start.place], f"move {start.name}")
    return replace(
        circuit,
        cells=(*circuit.cells, moved),
        heads=tuple(head_reading(h, start, moved) if h.time > time else h for h in circuit.heads),
        writes=(
            *(write_reading(w, start, moved) if w.time > time else w for w in circuit.writes),
            copied,
        ),
        copies=tuple(
            (cell, substituted(form, start, moved) if cell.written > time else form)
            for cell, form in circuit.copies
        ),
    )


def new_value_moved(circuit: Circuit, variable: Carried) -> Circuit:
    """The new value waits in other channels, and the last MLP of the pass moves it to its own."""
    assert circuit.loop is not None
    time, end = circuit.loop.last_mlp, variable.end
    moved = replace(end, written=time)
    copied = LinearWrite(time, whole(end), moved, TOKENS_AT[end.place], f"move {end.name}")
    carried = tuple(replace(v, end=moved) if v is variable else v for v in circuit.loop.carried)
    return replace(
        circuit,
        cells=(*circuit.cells, moved),
        writes=(*circuit.writes, copied),
        loop=replace(circuit.loop, carried=carried),
        readouts=tuple(replace(r, cell=moved) if r.cell is end else r for r in circuit.readouts),
    )


def tie(circuit: Circuit) -> Circuit:
    """Makes the cells of each variable follow each other in the same channels."""
    loop = circuit.loop
    if loop is None:
        return circuit
    continues = dict(circuit.continues)
    for v in loop.carried:
        if v.before is not None:
            continues[v.start] = v.before
        if v.after is not None:
            continues[v.after] = v.end
    kept = circuit.kept | {v.end for v in loop.carried}
    circuit = replace(circuit, continues=continues, kept=kept)
    for old, new in loop.replaced:
        if new not in continues and circuit.erasures()[old] == new.written:
            circuit = with_difference(circuit, old, new)
    check_boundaries(circuit)
    return circuit


def with_difference(circuit: Circuit, old: Cell, new: Cell) -> Circuit:
    """The MLP that writes the new value subtracts the old one."""
    writes, less = list(circuit.writes), whole(old, -1.0)
    for index, write in enumerate(writes):
        if (
            isinstance(write, LinearWrite)
            and write.cell is new
            and write.time == new.written
            and write.form
            and write.form[0].width == new.width
        ):
            writes[index] = replace(write, form=added(write.form, less))
            break
    else:
        label = f"replace {old.name}"
        writes.append(LinearWrite(new.written, less, new, TOKENS_AT[new.place], label))
    return replace(circuit, writes=tuple(writes), continues={**circuit.continues, new: old})


def check_boundaries(circuit: Circuit) -> None:
    """Nothing but what is carried, and what stays for good, is alive at either end of a pass."""
    loop = circuit.loop
    assert loop is not None
    before, last = 2 * loop.first - 1, loop.last_mlp
    ties = {cell for v in loop.carried for cell in (v.before, v.start, v.end, v.after)}
    for cell, erased in circuit.erasures().items():
        if cell in circuit.kept or cell in ties or cell in circuit.continues.values():
            continue
        for boundary in (before, last):
            assert not cell.written <= boundary < erased, f"{cell.name} is alive between two passes"


def substituted(form: Form, old: Cell, new: Cell) -> Form:
    return tuple(replace(part, cell=new) if part.cell is old else part for part in form)


def head_reading(head: Head, old: Cell, new: Cell) -> Head:
    """The same head with another cell in place of one that it reads."""
    return replace(
        head,
        q=tuple(substituted(form, old, new) for form in head.q),
        k=tuple(substituted(form, old, new) for form in head.k),
        outputs=tuple(Output(substituted(o.v, old, new), o.cell, o.offset) for o in head.outputs),
    )


def write_reading(write: MLPWrite, old: Cell, new: Cell) -> MLPWrite:
    """The same neurons with another cell in place of one that they read."""
    match write:
        case LinearWrite():
            return replace(write, form=substituted(write.form, old, new))
        case HingeWrite():
            return replace(write, x=substituted(write.x, old, new))
        case ProductWrite():
            gate, value = (substituted(form, old, new) for form in write.reads)
            return replace(write, gate=gate, value=value)
