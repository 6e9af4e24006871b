"""Which channels of the residual stream hold which cell, and when they are cleared.

Writes to the stream only add, so a channel is free again only after its last content was
subtracted. A cell therefore takes over the channels of a dead input where it can (`take_over`), and
is erased by the MLP after its last reader otherwise. Scalars live at the aggregator and vectors at
the other tokens, so one of each may share a channel, as long as no head picks up the wrong one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf

from ridgeformer.compiler.schedule import (
    AGGREGATOR,
    DATA,
    START,
    Cell,
    Form,
    Head,
    LinearWrite,
    Output,
    Part,
    Schedule,
    whole,
)


def take_over(s: Schedule) -> None:
    """Lets each cell continue in the channels of an input that dies with it."""
    for cell, form in s.copies:
        rest = form
        for part in form:
            if part.coefficient == 1.0 and replaceable(part, cell):
                cell.base, part.cell.replaced = part.cell, True
                rest = tuple(p for p in form if p is not part)
                break
        if rest:
            copy_heads(s, cell, rest)
    for index, write in enumerate(s.writes):
        if isinstance(write, LinearWrite) and write.cell.written == write.time:
            for part in write.form:
                if write.cell.base is None and replaceable(part, write.cell):
                    write.cell.base, part.cell.replaced = part.cell, True
                    minus = Part(-1.0, part.cell, part.offset, part.width)
                    form = subtract(write.form, minus)
                    s.writes[index] = LinearWrite(
                        write.time, form, write.cell, write.tokens, write.label
                    )


def replaceable(part: Part, by: Cell) -> bool:
    old = part.cell
    return (
        old.last_read <= by.written
        and old.width == by.width == part.width
        and old.place == by.place
        and not (old.keep or old.replaced or (old.dirty and not by.dirty))
    )


def subtract(form: Form, minus: Part) -> Form:
    joined = tuple(
        Part(p.coefficient + minus.coefficient, p.cell, p.offset, p.width)
        if p.cell is minus.cell
        else p
        for p in form
    )
    return tuple(p for p in joined if p.coefficient != 0.0)


def copy_heads(s: Schedule, cell: Cell, form: Form) -> None:
    """cell += form by attention: multiplied by the aggregator's flag, twice, which is 1·1."""
    if cell.place == "aggregator":
        one = s.constant()
        s.head(cell.written, "copy", "aggregator", "aggregator", [one], [one], [Output(form, cell)])
        return
    for o in range(cell.width):
        q = tuple(Part(p.coefficient, p.cell, p.offset + o, 1) for p in form)
        written = [Output(s.constant(), cell, o)]
        s.head(cell.written, "copy", "data", "aggregator", [q], [s.constant()], written)


def erase_the_dead(s: Schedule) -> None:
    """Clears each cell's channels after its last reader, so that others can use them."""
    end = s.end
    for cell in s.cells:
        if cell.erased <= end:
            tokens = AGGREGATOR if cell.place == "aggregator" else DATA
            s.writes.append(
                LinearWrite(int(cell.erased), whole(cell, -1.0), cell, tokens, f"erase {cell.name}")
            )


@dataclass(eq=False)
class Lodger:
    """A chain of cells that follow each other in the same channels."""

    cells: list[Cell]
    readers: list[tuple[Head, str]] = field(default_factory=list)

    @property
    def place(self) -> str:
        return self.cells[0].place

    @property
    def start(self) -> int:
        return self.cells[0].written

    @property
    def stop(self) -> float:
        return self.cells[-1].erased


class Layout:
    """Assigns columns to cells: [φ | flags | everything else], the fewest that a greedy walk finds."""

    def __init__(self, s: Schedule, phi: Cell, y: Cell) -> None:
        self.columns: list[list[Lodger]] = []
        self.home: dict[Cell, Lodger] = {}
        self.claimed: dict[Head, tuple[set[Lodger], set[Lodger]]] = {}
        lodgers = self.chains(s)
        for head in s.heads:
            for slot, forms in (("q", head.q), ("k", head.k), ("v", [o.v for o in head.outputs])):
                for lodger in {self.home[p.cell] for f in forms for p in f if p.cell in self.home}:
                    lodger.readers.append((head, slot))
        self.place_fixed(self.home[phi], phi.width)
        for flag in (s.support, s.one, s.query):
            flag.columns = [len(self.columns)]
            self.columns.append([Lodger([Cell("flag", "data", 1, START, keep=True)]), Lodger([Cell("flag", "aggregator", 1, START, keep=True)])])
        self.place_fixed(self.home[y], y.width)
        for lodger in sorted(lodgers, key=lambda l: l.start):
            if not lodger.cells[0].columns:
                self.settle(lodger)

    @property
    def width(self) -> int:
        return len(self.columns)

    def chains(self, s: Schedule) -> list[Lodger]:
        lodgers = []
        for cell in s.cells:  # a base is always made before the cell that takes it over
            if cell.base is None:
                self.home[cell] = Lodger([cell])
                lodgers.append(self.home[cell])
            else:
                self.home[cell] = self.home[cell.base]
                self.home[cell].cells.append(cell)
        return lodgers

    def place_fixed(self, lodger: Lodger, width: int) -> None:
        first = len(self.columns)
        self.columns.extend([lodger] for _ in range(width))
        for cell in lodger.cells:
            cell.columns = list(range(first, first + width))

    def settle(self, lodger: Lodger) -> None:
        chosen: list[int] = []
        for _ in range(lodger.cells[0].width):
            for column, others in enumerate(self.columns):
                if column not in chosen and all(self.compatible(lodger, o) for o in others):
                    break
            else:
                column = len(self.columns)
                self.columns.append([])
            self.columns[column].append(lodger)
            chosen.append(column)
        for cell in lodger.cells:
            cell.columns = chosen

    def compatible(self, new: Lodger, old: Lodger) -> bool:
        start, stop = max(new.start, old.start), min(new.stop, old.stop)
        if start > stop:
            return True
        if new.place == old.place:
            return False
        return not (self.leaks(new, old, start, stop) or self.leaks(old, new, start, stop))

    def leaks(self, read: Lodger, intruder: Lodger, start: float, stop: float) -> bool:
        """Would a head that reads `read` pick up `intruder`, which shares its channel elsewhere?

        A query slot is read where the head writes, so an intruder there writes rubbish. Keys and
        values are read at every visible token; their product is rubbish only if both are intruded,
        which is avoided by never letting both slots of one head be shared.
        """
        for head, slot in read.readers:
            if not start < head.time <= stop:
                continue
            if slot == "q":
                if head.to != intruder.place:
                    return True
            elif head.source != intruder.place:
                other = [o.v for o in head.outputs] if slot == "k" else head.k
                if any(self.intruded(p.cell, head.time) or self.home.get(p.cell) is read for f in other for p in f):
                    return True
        return False

    def intruded(self, cell: Cell, time: int) -> bool:
        """Does anyone of the other place share the cell's channels at this time?"""
        lodger = self.home.get(cell)
        if lodger is None:
            return False
        return any(
            other.place != lodger.place and other.start < time <= other.stop
            for column in cell.columns
            for other in self.columns[column]
        )
