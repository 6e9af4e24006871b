"""Linear attention: how sums and products of channels become heads and neurons.

Nothing is stored that a reader can form by itself: a linear combination is read as one, and a
product of scalars stays a list of factors until something needs it as one number. What remains is
to fit products into the two scalar slots of a broadcast or the three of a self-attending head;
the factors that are ready first are multiplied first, so that the last one never waits.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from ridgeformer.compiler.backends import gadgets
from ridgeformer.compiler.backends.gadgets import Inverse
from ridgeformer.compiler.backends.lowering import Lowering
from ridgeformer.compiler.circuit import (
    AGGREGATOR,
    Cell,
    Form,
    LinearWrite,
    added,
    is_cell,
    scaled,
    whole,
)
from ridgeformer.program import ops
from ridgeformer.program.ops import Channel, Op
from ridgeformer.program.tables import reciprocal_table, unit_table
from ridgeformer.types import Refusal


@dataclass(frozen=True, eq=False)
class Reduction:
    """A dot product as a factor. It keeps its vectors, so that the same head can apply a scale."""

    cell: Cell
    u: Form
    v: Form


Factor = Cell | Inverse | Reduction
Scalar = tuple[Factor, ...]
"""A product of factors; empty for the number one."""


@dataclass(frozen=True)
class Vector:
    """linear + Σ scalar·form + Σ coefficient·token·form, not yet stored as a whole."""

    linear: Form = ()
    scaled: tuple[tuple[float, Scalar, Form], ...] = ()
    gated: tuple[tuple[float, Cell, Form], ...] = ()


@dataclass(frozen=True)
class Diagonal:
    """A number for each support, shared by the outputs: coefficient·cell + constant."""

    cell: Cell
    constant: float = 0.0
    coefficient: float = 1.0


def ready_time(factor: Factor) -> int:
    if isinstance(factor, Inverse):
        return factor.w.written
    return factor.cell.written if isinstance(factor, Reduction) else factor.written


def stored(factor: Factor) -> Cell:
    if isinstance(factor, Inverse):
        return factor.value()
    return factor.cell if isinstance(factor, Reduction) else factor


@dataclass
class FactorLowering(Lowering):
    """Shared by the backends with linear attention; what differs is where vectors live."""

    gated: bool = False
    """Whether the MLP can multiply."""
    largest: float = 1.0
    """A power of two above every value in the stream."""
    values: dict[Channel, Vector | Scalar | Diagonal] = field(default_factory=dict)
    merged: dict[Scalar, Cell] = field(default_factory=dict)
    """Products that are already stored, by their factors in order of identity."""
    unclamped: dict[Cell, Cell] = field(default_factory=dict)

    @abstractmethod
    def target(self) -> Form: ...

    @abstractmethod
    def matvec(self, v: Form, name: str, variable: str | None) -> Cell: ...

    @abstractmethod
    def dot(self, u: Form, v: Form, scale: Form | None, name: str) -> Cell: ...

    @abstractmethod
    def store(self, vector: Vector, name: str, variable: str | None = None) -> Cell:
        """The vector in channels of its own."""

    @abstractmethod
    def predict(self, alpha: Vector, cell: Cell) -> Cell:
        """Predictions at the queries, from the iterate as an expression and as stored."""

    @abstractmethod
    def diagonal(self) -> Diagonal: ...

    @abstractmethod
    def invert_token(self, token: Diagonal, lo: float, hi: float) -> Cell: ...

    def silence(self) -> float:
        return self.largest

    def perform(self, op: Op) -> None:
        self.values[op.out] = self.lower(op)

    def keep(self, channel: Channel, step: int, variable: str) -> None:
        value = self.values[channel]
        if isinstance(value, Vector):
            cell = self.store(value, variable, variable)
            self.values[channel] = Vector(whole(cell))
            self.read(step, variable, cell)
            if variable == "alpha":
                self.read(step, None, self.predict(value, cell))
        elif isinstance(value, tuple) and len(value) > 1:
            # An inverse is ready last: it stays a factor, so that what it multiplies need not wait.
            late = tuple(f for f in value if isinstance(f, Inverse))[-1:]
            early = tuple(f for f in value if f not in late)
            self.values[channel] = (self.merge(early, variable), *late)

    def adopt(self, channel: Channel, cell: Cell) -> None:
        self.values[channel] = Vector(whole(cell)) if channel.kind == "vector" else (cell,)

    def settle(self, channel: Channel, name: str) -> Cell:
        value = self.values[channel]
        if not isinstance(value, Vector):
            return self.scalar(channel)
        if not value.scaled and not value.gated and is_cell(value.linear):
            return value.linear[0].cell
        cell = self.store(value, name, name)
        self.values[channel] = Vector(whole(cell))
        return cell

    def fit(self, alpha: Cell, bound: tuple[float, float]) -> Cell:
        return self.predict(Vector(whole(alpha)), alpha)

    def lower(self, op: Op) -> Vector | Scalar | Diagonal:
        match op:
            case ops.Target():
                return Vector(self.target())
            case ops.Diagonal():
                return self.diagonal()
            case ops.RowSums():
                raise AssertionError("tracing for linear attention refuses row sums")
            case ops.MatVec(v=v):
                return Vector(whole(self.matvec(self.form(v), f"K{v.name}", v.variable)))
            case ops.Dot(out=out, u=u, v=v):
                left, right = self.form(u), self.form(v)
                return (Reduction(self.dot(left, right, None, out.name), left, right),)
            case ops.Combine():
                return self.combine(op)
            case ops.Multiply(a=a, b=b):
                if isinstance(self.values[a], Diagonal):
                    self.form(b)  # the MLP multiplies what is stored
                return self.multiply(self.values[a], self.values[b])
            case ops.Clamp(x=x, lo=lo, hi=hi):
                value = self.values[x]
                if isinstance(value, Diagonal):
                    return value  # inside its bounds by the domain
                clamped = gadgets.clamp(self.s, self.scalar(x), lo, hi, self.scalar(x).name)
                self.unclamped[clamped] = self.scalar(x)
                return (clamped,)
            case ops.Invert():
                return self.invert(op)
            case ops.Unit(x=x, lo=lo, hi=hi):
                return (gadgets.table(self.s, self.scalar(x), unit_table(lo, hi), "c"),)
            case ops.Hold(x=x, lo=lo, hi=hi):
                return (gadgets.hold(self.s, self.scalar(x), lo, hi, "rho"),)
            case ops.Identity() | ops.Product() | ops.Apply():
                raise AssertionError("polynomials in A have a lowering of their own")
            case ops.Carried():
                raise AssertionError("what a loop carries is read off its cell")

    def combine(self, op: ops.Combine) -> Vector | Scalar | Diagonal:
        if op.out.kind == "scalar":
            return (self.sum_of_scalars(op),)
        values = [(coefficient, self.values[c]) for coefficient, c in op.terms]
        if op.out.kind == "token":
            (c, diagonal), *others = values
            if others or not isinstance(diagonal, Diagonal):
                raise Refusal("The sum of two diagonals is not part of any compiled recurrence.")
            constant = c * diagonal.constant + op.constant
            return Diagonal(diagonal.cell, constant, c * diagonal.coefficient)
        total = Vector()
        for coefficient, value in values:
            if not isinstance(value, Vector) or op.constant:
                raise Refusal("A vector plus a number is not part of any compiled recurrence.")
            total = Vector(
                added(total.linear, scaled(value.linear, coefficient)),
                total.scaled + tuple((coefficient * c, a, f) for c, a, f in value.scaled),
                total.gated + tuple((coefficient * c, t, f) for c, t, f in value.gated),
            )
        return total

    def multiply(
        self, a: Vector | Scalar | Diagonal, b: Vector | Scalar | Diagonal
    ) -> Vector | Scalar | Diagonal:
        if isinstance(a, tuple) and isinstance(b, tuple):
            return a + b
        assert isinstance(b, Vector)
        if isinstance(a, tuple) and not b.gated:
            products = tuple((c, a + factors, form) for c, factors, form in b.scaled)
            return Vector((), products + (((1.0, a, b.linear),) if b.linear else ()))
        if isinstance(a, tuple):
            return Vector((), ((1.0, a, whole(self.store(b, "P⁻¹v"))),))
        assert isinstance(a, Diagonal)
        product = Vector((), (), ((a.coefficient, a.cell, b.linear),))
        return Vector(scaled(b.linear, a.constant), (), product.gated) if a.constant else product

    def sum_of_scalars(self, op: ops.Combine) -> Cell:
        """A linear combination of scalars, by the aggregator's MLP."""
        form: Form = self.s.constant(op.constant) if op.constant else ()
        for coefficient, channel in op.terms:
            form = added(form, whole(self.scalar(channel), coefficient))
        time = self.s.mlp_time([form])
        out = self.s.new(op.out.name, "aggregator", self.outputs, time, variable=op.out.variable)
        for o in range(self.outputs):
            entries = tuple(p for part in form for p in gadgets.spread((part,), o))
            self.s.write(LinearWrite(time, entries, out, AGGREGATOR, op.out.name, o))
        return out

    def invert(self, op: ops.Invert) -> Scalar | Diagonal:
        value = self.values[op.x]
        if isinstance(value, Diagonal):
            if value.coefficient != 1.0:
                raise Refusal("A multiple of a diagonal is not inverted: invert it, then multiply.")
            return Diagonal(self.invert_token(value, op.lo, op.hi))
        clamped = self.scalar(op.x)
        correction = reciprocal_table(op.lo, op.hi)
        # The table is constant outside [lo, hi], so it may read the cell before it is clamped.
        guess = gadgets.table(self.s, self.unclamped.get(clamped, clamped), correction.table, "z")
        return (Inverse(self.s, guess, clamped, correction, op.out.name),)

    def form(self, channel: Channel) -> Form:
        """A vector as something a head can read; stores it only when it must."""
        value = self.values[channel]
        assert isinstance(value, Vector)
        if value.scaled or value.gated:
            value = Vector(whole(self.store(value, channel.name, channel.variable)))
            self.values[channel] = value
        return value.linear

    def scalar(self, channel: Channel) -> Cell:
        """A scalar as one number."""
        value = self.values[channel]
        assert isinstance(value, tuple)
        cell = self.merge(value, channel.name)
        if len(value) != 1:
            self.values[channel] = (cell,)
        return cell

    def merge(self, factors: Scalar, name: str | None = None) -> Cell:
        """One cell that holds the product."""
        if len(factors) == 1:
            return stored(factors[0])
        key = tuple(sorted(factors, key=id))
        if key not in self.merged:
            self.merged[key] = self.multiply_out(self.reuse(factors), name)
        return self.merged[key]

    def reuse(self, factors: Scalar) -> Scalar:
        """The same product by way of a part that is already stored, which frees its factors."""
        for key, cell in reversed(self.merged.items()):
            if all(factors.count(f) >= key.count(f) for f in key):
                left = list(factors)
                for factor in key:
                    left.remove(factor)
                return (*left, cell)
        return factors

    def multiply_out(self, factors: Scalar, name: str | None) -> Cell:
        ordered = sorted(factors, key=ready_time)
        last = ordered[-1]
        if isinstance(last, Reduction) and len(ordered) > 1:
            scale = self.merge(tuple(ordered[:-1]))
            if scale.written < last.cell.written:  # in time for the reduction's own head
                name = name or f"{scale.name}·{last.cell.name}"
                return self.dot(last.u, last.v, whole(scale), name)
            ordered = [scale, last]
        cells = sorted(map(stored, ordered), key=lambda c: c.written)
        # As in Huffman's code, a short product comes first, so that all later ones are full.
        while len(cells) > 1:
            count = min(3, len(cells)) if len(cells) % 2 else 2
            # A product of two frees one cell at most, so it waits for the last possible layer.
            wait = self.s.attention_time([whole(cells[-1])]) - 2 if count < len(cells) == 4 else 0
            forms = [whole(c) for c in cells[:count]]
            first = gadgets.product(self.s, forms, name, self.outputs, not_before=wait)
            cells = sorted([first, *cells[count:]], key=lambda c: c.written)
        return cells[0]

    def pair(self, factors: Scalar) -> tuple[Form, Form]:
        """The product as two numbers, for the two scalar slots of a broadcast."""
        ordered = sorted(factors, key=ready_time)
        last, rest = ordered[-1], tuple(ordered[:-1])
        if isinstance(last, Inverse):
            return whole(last.u(self.merge(rest) if rest else None)), whole(last.w)
        other = whole(self.merge(rest)) if rest else self.s.constant()
        return whole(stored(last)), other
