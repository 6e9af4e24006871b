"""Which channels of the residual stream hold which cell.

Scalars live at the aggregator and vectors at the other tokens, so one of each may share a channel, as
long as no head picks up the wrong one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from ridgeformer.compiler.circuit import (
    PLACES,
    START,
    Cell,
    Circuit,
    Form,
    Head,
    Place,
    ProductWrite,
)


@dataclass(frozen=True)
class Placement:
    """The columns of every cell, flags included, and how many columns there are."""

    columns: Mapping[Cell, tuple[int, ...]]
    width: int


def place(circuit: Circuit) -> Placement:
    """Columns in the order [φ | flags | y | everything else], as few as a greedy walk finds."""
    stream = Stream(circuit)
    stream.append(circuit.phi)
    for flag in circuit.flags:
        stream.append_flag(flag)
    stream.append(circuit.y)
    # Vectors first: they decide which channels scalars may share.
    ranges = sorted(stream.live_ranges, key=lambda live: (live.place != "data", live.start))
    for live in ranges:
        if not live.columns:
            stream.insert(live)
    columns = {cell: live.columns for cell, live in stream.range_of.items()}
    return Placement(columns | stream.flags, len(stream.occupants))


@dataclass(eq=False)
class LiveRange:
    """A chain of cells that follow each other in the same channels."""

    place: Place
    width: int
    start: int
    stop: float = inf
    readers: list[tuple[int, Head | ProductWrite, str]] = field(default_factory=list)
    """The times at which it is read, by what, and in which slot."""
    columns: tuple[int, ...] = ()
    together: tuple[LiveRange, ...] = ()
    """Other ranges that must be in the same channels, at other times."""


class Occupants:
    """The live ranges in one channel; those of the same place never overlap."""

    def __init__(self) -> None:
        self.ranges: dict[Place, list[LiveRange]] = {where: [] for where in PLACES}

    def overlapping(self, where: Place, start: float, stop: float) -> list[LiveRange]:
        line = self.ranges[where]
        first = max(0, bisect_left(line, start, key=lambda live: live.start) - 1)
        overlaps = []
        for live in line[first:]:
            if live.start > stop:
                break
            if live.stop >= start:
                overlaps.append(live)
        return overlaps

    def admit(self, live: LiveRange) -> None:
        insort(self.ranges[live.place], live, key=lambda other: other.start)


class Stream:
    """The residual stream while it is being filled."""

    def __init__(self, circuit: Circuit) -> None:
        self.occupants: list[Occupants] = []
        self.flags: dict[Cell, tuple[int, ...]] = {}
        self.range_of: dict[Cell, LiveRange] = {}
        self.live_ranges: list[LiveRange] = []
        erasures = circuit.erasures()
        for cell in circuit.cells:
            first = cell
            while first in circuit.continues:
                first = circuit.continues[first]
            if first not in self.range_of:
                # A register holds its value from the start, whenever other tokens get theirs.
                start = START if first in circuit.registers else first.written
                self.range_of[first] = LiveRange(first.place, first.width, start)
                self.live_ranges.append(self.range_of[first])
            live = self.range_of[cell] = self.range_of[first]
            # All but the last of a chain stay until they are continued.
            live.stop = min(live.stop, erasures[cell])
        if circuit.loop is not None:
            for old, new in circuit.loop.same_columns:
                a, b = self.range_of[old], self.range_of[new]
                if a is not b:
                    assert a.stop < b.start, f"{old.name} is in the way of its next value"
                    a.together, b.together = (*a.together, b), (*b.together, a)
        self.note_readers(circuit)

    def note_readers(self, circuit: Circuit) -> None:
        for head in circuit.heads:
            for slot, forms in (("q", head.q), ("k", head.k), ("v", [o.v for o in head.outputs])):
                for live in self.ranges_in(forms):
                    live.readers.append((head.time, head, slot))
        for write in circuit.writes:
            if isinstance(write, ProductWrite):
                for live in self.ranges_in(write.reads):
                    live.readers.append((write.time, write, "q"))
        for live in self.live_ranges:
            live.readers.sort(key=lambda reader: reader[0])

    def ranges_in(self, forms: Iterable[Form]) -> set[LiveRange]:
        return {self.range_of[p.cell] for form in forms for p in form if p.cell in self.range_of}

    def append_flag(self, flag: Cell) -> None:
        """A flag is read at every token, so its channel is never shared."""
        self.flags[flag] = (len(self.occupants),)
        column = Occupants()
        for where in PLACES:
            column.admit(LiveRange(where, 1, START, inf))
        self.occupants.append(column)

    def append(self, cell: Cell) -> None:
        first = len(self.occupants)
        self.occupy(self.range_of[cell], list(range(first, first + cell.width)))

    def insert(self, live: LiveRange) -> None:
        """Places the range in the first channels that admit it, and in new ones after them."""
        chosen: list[int] = []
        for index, column in enumerate(self.occupants):
            if len(chosen) == live.width:
                break
            if all(self.admissible(one, column) for one in (live, *live.together)):
                chosen.append(index)
        missing, first = live.width - len(chosen), len(self.occupants)
        for one in (live, *live.together):
            self.occupy(one, chosen + list(range(first, first + missing)))

    def occupy(self, live: LiveRange, columns: list[int]) -> None:
        for index in columns:
            if index == len(self.occupants):
                self.occupants.append(Occupants())
            self.occupants[index].admit(live)
        live.columns = tuple(columns)

    def admissible(self, new: LiveRange, column: Occupants) -> bool:
        if column.overlapping(new.place, new.start, new.stop):
            return False
        for old in column.overlapping(other_place(new.place), new.start, new.stop):
            if self.leaks(new, old) or self.leaks(old, new):
                return False
        return True

    def leaks(self, read: LiveRange, intruder: LiveRange) -> bool:
        """Whether a reader of `read` would pick up `intruder`, which shares its channel elsewhere.

        A query slot is read where the head writes, so an intruder there corrupts what is written;
        the same is true of a product in the MLP. Keys and values are read at every visible token;
        their product is corrupted only where both have intruders, which is avoided by never sharing
        both.
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
                for live in self.ranges_in(others):
                    if live is read or self.intruded(live, time):
                        return True
        return False

    def intruded(self, live: LiveRange, time: int) -> bool:
        """Whether a range of the other place shares the channels at this time."""
        return any(
            other.start < time
            for column in live.columns
            for other in self.occupants[column].overlapping(other_place(live.place), time, time)
        )


def other_place(where: Place) -> Place:
    return "aggregator" if where == "data" else "data"
