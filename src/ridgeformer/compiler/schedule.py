"""The compiler's own language: stored cells, the heads and neurons that write them, and when.

Time counts sublayers: attention of block l happens at time 2l, its MLP at time 2l + 1, and the
embedding at time −1. An operation runs as early as its inputs allow. Attention reads the stream as
it was before the block; the MLP reads it after attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, get_args

import numpy as np

Place = Literal["data", "aggregator", "everywhere"]
"""Where a cell is filled: `data` is the support and query tokens, which share their channels."""
PLACES: tuple[Place, ...] = get_args(Place)

Token = Literal["support", "aggregator", "query"]
START = -1


@dataclass(eq=False)
class Cell:
    """A value in the residual stream, `width` channels wide."""

    name: str
    place: Place
    width: int
    written: int
    last_read: int = START
    base: Cell | None = None
    """The dead cell whose channels this one takes over, by adding the difference."""
    replaced: bool = False
    keep: bool = False
    """Kept to the end, for whoever reads the model."""
    dirty: bool = False
    """Not zero at the query tokens."""
    flag: bool = False
    """Says what kind of token this is: 1 there, 0 elsewhere."""
    columns: list[int] = field(default_factory=list)

    @property
    def erased(self) -> float:
        """The MLP that clears the cell after its last reader."""
        if self.keep or self.replaced:
            return inf
        last = max(self.last_read, self.written + 1)  # what an MLP writes is there after it
        return last if last % 2 else last + 1


@dataclass(frozen=True)
class Part:
    """coefficient · cell[offset : offset + width]"""

    coefficient: float
    cell: Cell
    offset: int
    width: int


Form = tuple[Part, ...]
"""A sum of parts of one width: what a head or a neuron reads."""


def whole(cell: Cell, coefficient: float = 1.0) -> Form:
    return (Part(coefficient, cell, 0, cell.width),)


def scaled(form: Form, factor: float) -> Form:
    return tuple(Part(factor * p.coefficient, p.cell, p.offset, p.width) for p in form)


def piece(form: Form, index: int, width: int) -> Form:
    """The index-th slice of the given width."""
    return tuple(Part(p.coefficient, p.cell, p.offset + index * width, width) for p in form)


def entry(form: Form, output: int) -> Form:
    """One output's entry; a part of a single channel serves them all."""
    return tuple(
        p if p.cell.width == 1 else Part(p.coefficient, p.cell, p.offset + output, 1) for p in form
    )


def added(a: Form, b: Form) -> Form:
    """The sum of two forms, terms of the same channels joined."""
    parts = {(id(p.cell), p.offset, p.width): p for p in a}
    for part in b:
        key = (id(part.cell), part.offset, part.width)
        if key in parts:
            total = parts[key].coefficient + part.coefficient
            parts[key] = Part(total, part.cell, part.offset, part.width)
        else:
            parts[key] = part
    return tuple(p for p in parts.values() if p.coefficient != 0.0)


def is_cell(form: Form) -> bool:
    return len(form) == 1 and form[0].coefficient == 1.0 and form[0].width == form[0].cell.width


def form_key(form: Form) -> tuple[tuple[float, int, int, int], ...]:
    return tuple((p.coefficient, id(p.cell), p.offset, p.width) for p in form)


def ready(forms: Iterable[Form]) -> int:
    return max((p.cell.written for form in forms for p in form), default=START)


@dataclass(frozen=True)
class Output:
    """One value that a head adds to the stream: v, written to cell[offset:]."""

    v: Form
    cell: Cell
    offset: int = 0


@dataclass(frozen=True)
class Head:
    """out_j += Σ_i (q_j · k_i) v_i, for j at the place `to`, i at the place `source`."""

    time: int
    label: str
    to: Place
    source: Place
    q: tuple[Form, ...]
    k: tuple[Form, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class LinearWrite:
    """cell[offset:] += form, by the MLP, at the named tokens only."""

    time: int
    form: Form
    cell: Cell
    tokens: frozenset[Token]
    label: str = ""
    offset: int = 0


@dataclass(frozen=True)
class HingeWrite:
    """cell[offset] += constant + Σ w·relu(slope·x + bias), at the named tokens only."""

    time: int
    x: Form
    slopes: np.ndarray
    biases: np.ndarray
    weights: np.ndarray
    constant: float
    cell: Cell
    offset: int
    tokens: frozenset[Token]
    label: str = ""
    also: tuple[tuple[Cell, int, np.ndarray], ...] = ()
    """Other channels that the same neurons write, with weights of their own."""


@dataclass(frozen=True)
class ProductWrite:
    """cell[offset] += relu(gate)·value: exact, but only a gated MLP can do it."""

    time: int
    gate: Form
    value: Form
    cell: Cell
    offset: int
    label: str = ""


MLPWrite = LinearWrite | HingeWrite | ProductWrite

DATA: frozenset[Token] = frozenset({"support", "query"})
SUPPORT: frozenset[Token] = frozenset({"support"})
QUERY: frozenset[Token] = frozenset({"query"})
AGGREGATOR: frozenset[Token] = frozenset({"aggregator"})
ALL: frozenset[Token] = DATA | AGGREGATOR
TOKENS_AT: dict[Place, frozenset[Token]] = {
    "data": DATA,
    "aggregator": AGGREGATOR,
    "everywhere": ALL,
}


@dataclass
class Schedule:
    """Everything the model will do, in the order in which it was asked for."""

    cells: list[Cell] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    writes: list[MLPWrite] = field(default_factory=list)
    copies: list[tuple[Cell, Form]] = field(default_factory=list)
    """Linear terms of cells that attention writes: taken over in place, or copied by a head."""
    one: Cell = field(
        default_factory=lambda: Cell("is_aggregator", "aggregator", 1, START, flag=True)
    )
    support: Cell = field(default_factory=lambda: Cell("is_support", "data", 1, START, flag=True))
    query: Cell = field(default_factory=lambda: Cell("is_query", "data", 1, START, flag=True))

    def new(self, name: str, place: Place, width: int, written: int) -> Cell:
        cell = Cell(name, place, width, written)
        self.cells.append(cell)
        return cell

    def attention_time(self, forms: Iterable[Form]) -> int:
        last = ready(forms)
        return last + 1 if last % 2 else last + 2

    def mlp_time(self, forms: Iterable[Form]) -> int:
        last = ready(forms)
        return last + 2 if last % 2 else last + 1

    def read(self, time: int, forms: Iterable[Form]) -> None:
        for form in forms:
            for part in form:
                assert part.cell.written < time, "nothing is read before it is written"
                part.cell.last_read = max(part.cell.last_read, time)

    def head(
        self,
        time: int,
        label: str,
        to: Place,
        source: Place,
        q: Sequence[Form],
        k: Sequence[Form],
        outputs: Sequence[Output],
    ) -> None:
        self.read(time, [*q, *k, *(o.v for o in outputs)])
        self.heads.append(Head(time, label, to, source, tuple(q), tuple(k), tuple(outputs)))

    def write(self, write: MLPWrite) -> None:
        match write:
            case LinearWrite(form=form):
                self.read(write.time, [form])
            case HingeWrite(x=x):
                self.read(write.time, [x])
            case ProductWrite(gate=gate, value=value):
                self.read(write.time, [gate, value])
        self.writes.append(write)

    def constant(self, value: float = 1.0) -> Form:
        """A number that only the aggregator holds."""
        return (Part(value, self.one, 0, 1),)

    def common(self, value: float = 1.0) -> Form:
        """A number that every token holds: exactly one of its flags is set."""
        return tuple(Part(value, flag, 0, 1) for flag in (self.support, self.one, self.query))

    @property
    def end(self) -> int:
        """The last sublayer that does anything."""
        return max(op.time for op in [*self.heads, *self.writes])
