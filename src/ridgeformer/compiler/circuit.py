"""The compiler's own language: cells of the residual stream, and the heads and neurons that write them.

Time counts sublayers: attention of block l happens at time 2l, its MLP at time 2l + 1, and the
embedding at time −1. Attention reads the stream as it was before the block; the MLP reads it after
attention. A `Builder` collects the cells, heads and neurons that a backend asks for, each as early
as its inputs allow; the `Circuit` that it returns never changes, and every pass makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, get_args

import numpy as np

from ridgeformer.compiler.loop import Loop

Place = Literal["data", "aggregator", "everywhere"]
"""Where a cell is filled: `data` is the support and query tokens, which share their channels."""
PLACES: tuple[Place, ...] = get_args(Place)

Token = Literal["support", "aggregator", "query"]

Role = Literal[
    "matvec", "reduction", "broadcast", "product", "reciprocal", "copy", "target", "prediction",
    "normaliser", "mean", "operator",
]  # fmt: skip
"""What a head is for: K times a vector; an inner product; scalars times a vector, sent from the
aggregator; a product of scalars; a step of a reciprocal; a copy; Φᵀy; a prediction from w; the
weight of the sink; a mean over the context; a product of polynomials in A."""

START = -1


@dataclass(frozen=True, eq=False)
class Cell:
    """A value in the residual stream, `width` channels wide."""

    name: str
    """The name in listings, for people only."""
    place: Place
    width: int
    written: int
    variable: str | None = None
    """The variable of the recurrence whose value it is; an update continues in its channels."""
    dirty: bool = False
    """Whether it may be nonzero at the query tokens, as a product with K is."""
    flag: bool = False
    """Whether it marks the tokens of one kind: it is 1 there and 0 elsewhere."""


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


def entry(form: Form, index: int, width: int) -> Form:
    """One channel of `width`. A part of fewer channels is repeated: each of its channels serves a run."""
    return tuple(Part(p.coefficient, p.cell, p.offset + index * p.width // width, 1) for p in form)


def added(a: Form, b: Form) -> Form:
    """The sum of two forms, in which terms of the same channels are joined."""
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
    """The time at which the last of the cells that the forms read is written."""
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
    role: Role
    label: str
    to: Place
    source: Place
    q: tuple[Form, ...]
    k: tuple[Form, ...]
    outputs: tuple[Output, ...]
    variable: str | None = None
    """For a product with K, the variable that is multiplied."""

    @property
    def reads(self) -> tuple[Form, ...]:
        return (*self.q, *self.k, *(output.v for output in self.outputs))


@dataclass(frozen=True)
class LinearWrite:
    """cell[offset:] += form, by the MLP, at the named tokens only."""

    time: int
    form: Form
    cell: Cell
    tokens: frozenset[Token]
    label: str = ""
    offset: int = 0

    @property
    def reads(self) -> tuple[Form, ...]:
        return (self.form,)


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

    @property
    def reads(self) -> tuple[Form, ...]:
        return (self.x,)


@dataclass(frozen=True)
class ProductWrite:
    """cell[offset] += relu(gate)·value: exact, but only a gated MLP can do it."""

    time: int
    gate: Form
    value: Form
    cell: Cell
    offset: int
    label: str = ""

    @property
    def reads(self) -> tuple[Form, ...]:
        return (self.gate, self.value)


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


@dataclass(frozen=True)
class Readout:
    """Where an iterate is read: the cell that holds it, right after it was written."""

    step: int
    variable: str | None
    """The state variable; None for the prediction at the queries."""
    cell: Cell
    over: Cell | None = None
    """The cell by which it is still to be divided, if any."""
    scale: float = 1.0
    """The number by which it is still to be multiplied."""
    early: Early | None = None
    """How the cell is filled for this step, if the model itself fills it for its last step only."""


@dataclass(frozen=True)
class Early:
    """An early exit: the model's last blocks, applied to the stream of an earlier step.

    The stream right after `cell` is written, with that cell multiplied by `factor`, goes through the
    blocks from the one at time `resume` to the last.
    """

    cell: Cell
    factor: float
    resume: int


@dataclass(frozen=True)
class Circuit:
    """Everything that the model will do, in the order in which it was asked for."""

    phi: Cell
    """The features as the embedding writes them."""
    y: Cell
    support: Cell
    aggregator: Cell
    query: Cell
    cells: tuple[Cell, ...]
    heads: tuple[Head, ...]
    writes: tuple[MLPWrite, ...]
    readouts: tuple[Readout, ...]
    kept: frozenset[Cell]
    """Cells that stay in the stream to the end, where they can be read."""
    copies: tuple[tuple[Cell, Form], ...] = ()
    """Linear terms of cells that attention writes: they continue in place, or heads copy them."""
    continues: Mapping[Cell, Cell] = field(default_factory=dict)
    """For a cell, the dead cell in whose channels it continues, by adding the difference."""
    silence: float = 1.0
    """The number that silences a neuron of a plain MLP at the tokens where it must not act."""
    repeated: tuple[Cell, ...] = ()
    """Further cells that the embedding fills with the features."""
    registers: Mapping[Cell, np.ndarray] = field(default_factory=dict)
    """What the model's registers hold in some cells, [registers, width]. A register carries the flag
    of the aggregator."""
    loop: Loop | None = None
    """The blocks that are repeated, if any are."""

    @property
    def flags(self) -> tuple[Cell, Cell, Cell]:
        return self.support, self.aggregator, self.query

    @property
    def end(self) -> int:
        """The last sublayer that does anything."""
        return max(op.time for op in [*self.heads, *self.writes])

    @property
    def prediction(self) -> Readout:
        """What the unembedding reads."""
        return next(r for r in reversed(self.readouts) if r.variable is None)

    def constant(self, value: float = 1.0) -> Form:
        """A number that only the aggregator holds."""
        return (Part(value, self.aggregator, 0, 1),)

    def last_reads(self) -> dict[Cell, int]:
        """The time at which each cell is read for the last time."""
        last: dict[Cell, int] = {}
        reads = [(op.time, op.reads) for op in (*self.heads, *self.writes)]
        reads += [(cell.written, (form,)) for cell, form in self.copies]
        for time, forms in reads:
            for form in forms:
                for part in form:
                    last[part.cell] = max(last.get(part.cell, START), time)
        return last

    def erasures(self) -> dict[Cell, float]:
        """The time of the MLP that clears each cell after its last reader; infinity if it stays."""
        last, continued = self.last_reads(), set(self.continues.values())
        times: dict[Cell, float] = {}
        for cell in self.cells:
            # What an MLP writes can be cleared only by a later one.
            time = max(last.get(cell, START), cell.written + 1)
            stays = cell in self.kept or cell in continued
            times[cell] = inf if stays else time + 1 - time % 2
        return times


class Builder:
    """Collects the cells, heads and neurons of a circuit, each as early as its inputs allow."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.heads: list[Head] = []
        self.writes: list[MLPWrite] = []
        self.copies: list[tuple[Cell, Form]] = []
        self.readouts: list[Readout] = []
        self.kept: set[Cell] = set()
        self.aggregator = Cell("is_aggregator", "aggregator", 1, START, flag=True)
        self.support = Cell("is_support", "data", 1, START, flag=True)
        self.query = Cell("is_query", "data", 1, START, flag=True)

    def new(
        self,
        name: str,
        place: Place,
        width: int,
        written: int,
        *,
        variable: str | None = None,
        dirty: bool = False,
    ) -> Cell:
        cell = Cell(name, place, width, written, variable, dirty)
        self.cells.append(cell)
        return cell

    def attention_time(self, forms: Iterable[Form]) -> int:
        """The first attention that can read the forms."""
        last = ready(forms)
        return last + 1 if last % 2 else last + 2

    def mlp_time(self, forms: Iterable[Form]) -> int:
        """The first MLP that can read the forms."""
        last = ready(forms)
        return last + 2 if last % 2 else last + 1

    def head(
        self,
        time: int,
        role: Role,
        label: str,
        to: Place,
        source: Place,
        q: Sequence[Form],
        k: Sequence[Form],
        outputs: Sequence[Output],
        *,
        variable: str | None = None,
    ) -> None:
        head = Head(time, role, label, to, source, tuple(q), tuple(k), tuple(outputs), variable)
        assert ready(head.reads) < time, "nothing is read before it is written"
        self.heads.append(head)

    def write(self, write: MLPWrite) -> None:
        assert ready(write.reads) < write.time, "nothing is read before it is written"
        self.writes.append(write)

    def copy(self, cell: Cell, form: Form) -> None:
        """Adds a linear form to a cell that attention writes."""
        self.copies.append((cell, form))

    def constant(self, value: float = 1.0) -> Form:
        """A number that only the aggregator holds."""
        return (Part(value, self.aggregator, 0, 1),)

    def common(self, value: float = 1.0) -> Form:
        """A number that every token holds: exactly one of its flags is set."""
        return tuple(
            Part(value, flag, 0, 1) for flag in (self.support, self.aggregator, self.query)
        )

    def circuit(self, phi: Cell, y: Cell, silence: float) -> Circuit:
        """The circuit so far; the last iterate and its prediction stay in the stream to the end."""
        last = max(readout.step for readout in self.readouts)
        ends = {r.cell for r in self.readouts if r.step == last and r.variable in (None, "alpha")}
        return Circuit(
            phi=phi,
            y=y,
            support=self.support,
            aggregator=self.aggregator,
            query=self.query,
            cells=tuple(self.cells),
            heads=tuple(self.heads),
            writes=tuple(self.writes),
            readouts=tuple(self.readouts),
            kept=frozenset(self.kept | ends),
            copies=tuple(self.copies),
            silence=silence,
        )
