"""Which channels of the residual stream hold which cell, and when they are cleared.

Writes to the stream only add, so a channel is free again only after its last content was
subtracted. A cell therefore takes over the channels of a dead input where it can (`take_over`), and
is erased by the MLP after its last reader otherwise. Scalars live at the aggregator and vectors at
the other tokens, so one of each may share a channel, as long as no head picks up the wrong one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from ridgeformer.compiler.schedule import (
    PLACES,
    START,
    TOKENS_AT,
    Cell,
    Form,
    Head,
    LinearWrite,
    Output,
    Part,
    Place,
    ProductWrite,
    Schedule,
    whole,
)

LEAST_KEPT = 1 / 16
"""A cell c·x + … may take over the channels of x if c is at least this. (c − 1)·x is then added to x,
which leaves round-off of the size of x, not of c·x."""


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
            # An earlier iterate of the same vector before anything else.
            for part in sorted(write.form, key=lambda p: p.cell.name != write.cell.name):
                kept = abs(part.coefficient) >= LEAST_KEPT and replaceable(part, write.cell)
                if write.cell.base is None and kept:
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
            form, tokens = whole(cell, -1.0), TOKENS_AT[cell.place]
            s.writes.append(LinearWrite(int(cell.erased), form, cell, tokens, f"erase {cell.name}"))


@dataclass(eq=False)
class Lodger:
    """A chain of cells that follow each other in the same channels."""

    cells: list[Cell]
    readers: list[tuple[int, Head | ProductWrite, str]] = field(default_factory=list)
    """When it is read, by what, and in which slot."""

    def __post_init__(self) -> None:
        self.place, self.start = self.cells[0].place, self.cells[0].written
        self.stop = inf

    def close(self) -> None:
        self.stop = self.cells[-1].erased
        self.readers.sort(key=lambda reader: reader[0])


class Column:
    """Who lives in one channel, and when; lodgers of the same place never overlap."""

    def __init__(self) -> None:
        self.lodgers: dict[Place, list[Lodger]] = {place: [] for place in PLACES}

    def overlapping(self, place: Place, start: float, stop: float) -> list[Lodger]:
        line = self.lodgers[place]
        first = max(0, bisect_left(line, start, key=lambda lodger: lodger.start) - 1)
        found = []
        for lodger in line[first:]:
            if lodger.start > stop:
                break
            if lodger.stop >= start:
                found.append(lodger)
        return found

    def admit(self, lodger: Lodger) -> None:
        insort(self.lodgers[lodger.place], lodger, key=lambda other: other.start)


class Layout:
    """Assigns columns to cells: [φ | flags | y | everything else], as few as a greedy walk finds."""

    def __init__(self, s: Schedule, phi: Cell, y: Cell) -> None:
        self.columns: list[Column] = []
        self.home: dict[Cell, Lodger] = {}
        lodgers = self.chains(s)
        self.note_readers(s)
        for lodger in lodgers:
            lodger.close()
        self.settle_at_the_end(self.home[phi])
        for flag in (s.support, s.one, s.query):
            self.settle_flag(flag)
        self.settle_at_the_end(self.home[y])
        # Vectors first: they decide which channels scalars may share.
        for lodger in sorted(lodgers, key=lambda one: (one.place != "data", one.start)):
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

    def note_readers(self, s: Schedule) -> None:
        for head in s.heads:
            for slot, forms in (("q", head.q), ("k", head.k), ("v", [o.v for o in head.outputs])):
                for lodger in self.lodgers_in(forms):
                    lodger.readers.append((head.time, head, slot))
        for write in s.writes:
            if isinstance(write, ProductWrite):
                for lodger in self.lodgers_in([write.gate, write.value]):
                    lodger.readers.append((write.time, write, "q"))

    def lodgers_in(self, forms: Iterable[Form]) -> set[Lodger]:
        return {self.home[p.cell] for form in forms for p in form if p.cell in self.home}

    def settle_flag(self, flag: Cell) -> None:
        """A flag is read at every token, so its channel is nobody else's."""
        flag.columns = [len(self.columns)]
        column = Column()
        for place in PLACES:
            column.admit(Lodger([Cell(flag.name, place, 1, START)]))
        self.columns.append(column)

    def settle_at_the_end(self, lodger: Lodger) -> None:
        width = lodger.cells[0].width
        self.move_in(lodger, list(range(self.width, self.width + width)))

    def settle(self, lodger: Lodger) -> None:
        chosen: list[int] = []
        for index, column in enumerate(self.columns):
            if len(chosen) == lodger.cells[0].width:
                break
            if self.admissible(lodger, column):
                chosen.append(index)
        missing = lodger.cells[0].width - len(chosen)
        self.move_in(lodger, chosen + list(range(self.width, self.width + missing)))

    def move_in(self, lodger: Lodger, columns: list[int]) -> None:
        for index in columns:
            if index == len(self.columns):
                self.columns.append(Column())
            self.columns[index].admit(lodger)
        for cell in lodger.cells:
            cell.columns = columns

    def admissible(self, new: Lodger, column: Column) -> bool:
        if column.overlapping(new.place, new.start, new.stop):
            return False
        other: Place = "aggregator" if new.place == "data" else "data"
        for old in column.overlapping(other, new.start, new.stop):
            if self.leaks(new, old) or self.leaks(old, new):
                return False
        return True

    def leaks(self, read: Lodger, intruder: Lodger) -> bool:
        """Would someone who reads `read` pick up `intruder`, which shares its channel elsewhere?

        A query slot is read where the head writes, so an intruder there writes rubbish, and so does
        a product in the MLP. Keys and values are read at every visible token; their product is
        rubbish only where both are intruded, which is avoided by never sharing both.
        """
        start, stop = max(read.start, intruder.start), min(read.stop, intruder.stop)
        first = bisect_right(read.readers, start, key=lambda reader: reader[0])
        for time, reader, slot in read.readers[first:]:
            if time > stop:
                break
            if isinstance(reader, ProductWrite):
                return True
            if slot == "q":
                if reader.to != intruder.place:
                    return True
            elif reader.source != intruder.place:
                others = [o.v for o in reader.outputs] if slot == "k" else reader.k
                for lodger in self.lodgers_in(others):
                    if lodger is read or self.intruded(lodger, time):
                        return True
        return False

    def intruded(self, lodger: Lodger, time: int) -> bool:
        """Does anyone of the other place share the lodger's channels at this time?"""
        other: Place = "aggregator" if lodger.place == "data" else "data"
        return any(
            found.start < time
            for column in lodger.cells[0].columns
            for found in self.columns[column].overlapping(other, time, time)
        )
