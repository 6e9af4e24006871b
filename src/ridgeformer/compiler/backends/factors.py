"""Linear attention: how sums and products of channels become heads and neurons.

Nothing is stored that a reader can form by itself: a linear combination is read as one, and a
product of scalars stays a list of factors until something needs it as one number. What remains is
to fit products into the two scalar slots of a broadcast or the three of a self-attending head;
the factors that are ready first are multiplied first, so that the last one never waits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
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
from ridgeformer.program.tables import (
    NEAR_RATIO,
    first_guess,
    near_one,
    reciprocal_table,
    unit_table,
)
from ridgeformer.types import Refusal


class Reduction:
    """A dot product as a factor. It keeps its vectors, so that the same head can apply a scale; without
    one it is stored only where it is asked for."""

    def __init__(self, lowering: FactorLowering, u: Form, v: Form, name: str) -> None:
        self.lowering, self.u, self.v, self.name = lowering, u, v, name
        self.written = lowering.s.attention_time([u, v])
        self.stored: Cell | None = None

    def cell(self) -> Cell:
        if self.stored is None:
            self.stored = self.scaled(None, self.name)
        return self.stored

    def scaled(self, scale: Cell | None, name: str | None) -> Cell:
        """scale·uᵀv"""
        name = name or f"{scale.name if scale else 1}·{self.name}"
        return self.lowering.dot(self.u, self.v, whole(scale) if scale else None, name)


class ScalarSum:
    """A sum of scalars: the MLP reads it as a form, and stores it only when a head asks for it."""

    def __init__(self, lowering: FactorLowering, form: Form, out: Channel) -> None:
        self.lowering, self.form, self.out = lowering, form, out
        self.stored: Cell | None = None

    def cell(self) -> Cell:
        if self.stored is None:
            self.stored = self.lowering.store_sum(self.form, self.out)
        return self.stored


Factor = Cell | Inverse | Reduction | ScalarSum
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
    if isinstance(factor, ScalarSum):
        return factor.cell().written
    return factor.w.written if isinstance(factor, Inverse) else factor.written


def stored(factor: Factor) -> Cell:
    if isinstance(factor, Inverse):
        return factor.value()
    return factor if isinstance(factor, Cell) else factor.cell()


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
    unclamped: dict[Cell, Form] = field(default_factory=dict)

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
                return Vector(whole(self.matvec(self.form(v), f"K{v.as_factor}", v.variable)))
            case ops.Dot(out=out, u=u, v=v):
                left, right = self.form(u), self.form(v)
                return (Reduction(self, left, right, out.name),)
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
                form = self.scalar_form(x)
                clamped = gadgets.clamp(self.s, form, lo, hi, x.name)
                self.unclamped[clamped] = form
                return (clamped,)
            case ops.Invert():
                return self.invert(op)
            case ops.InvertNear():
                return self.invert_near(op)
            case ops.Unit(out=out, x=x, lo=lo, hi=hi, power=power):
                table = unit_table(lo, hi, power)
                return (gadgets.table(self.s, self.scalar(x), table, out.name),)
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

    def sum_of_scalars(self, op: ops.Combine) -> ScalarSum:
        """A linear combination of scalars."""
        form: Form = self.s.constant(op.constant) if op.constant else ()
        for coefficient, channel in op.terms:
            form = added(form, whole(self.scalar(channel), coefficient))
        return ScalarSum(self, form, op.out)

    def store_sum(self, form: Form, out: Channel) -> Cell:
        """A sum of scalars in channels of its own, by the aggregator's MLP."""
        time = self.s.mlp_time([form])
        cell = self.s.new(out.name, "aggregator", self.outputs, time, variable=out.variable)
        for o in range(self.outputs):
            entries = tuple(p for part in form for p in gadgets.spread((part,), o))
            self.s.write(LinearWrite(time, entries, cell, AGGREGATOR, out.name, o))
        return cell

    def scalar_form(self, channel: Channel) -> Form:
        """A scalar as something that the MLP can read."""
        match self.values[channel]:
            case (ScalarSum(form=form),) if all(p.width == self.outputs for p in form):
                return form
        return whole(self.scalar(channel))

    def invert(self, op: ops.Invert) -> Scalar | Diagonal:
        value = self.values[op.x]
        if isinstance(value, Diagonal):
            if value.coefficient != 1.0:
                raise Refusal("A multiple of a diagonal is not inverted: invert it, then multiply.")
            return Diagonal(self.invert_token(value, op.lo, op.hi))
        clamped = self.scalar(op.x)
        correction = reciprocal_table(op.lo, op.hi)
        # The table is constant outside [lo, hi], so it may read the cell before it is clamped.
        before = self.unclamped.get(clamped, whole(clamped))
        guess = gadgets.table(self.s, before, correction.table, "z")
        return (Inverse(self.s, guess, clamped, correction, op.out.name),)

    def invert_near(self, op: ops.InvertNear) -> Scalar:
        """1/x = z·1/(x·z) with z ≈ 1/near, which is worked out before x is there.

        A reduction applies z itself, so that only the reciprocal of a number near 1 comes after it,
        and one MLP has that to round-off.
        """
        near, factors = self.scalar(op.near), self.values[op.x]
        assert isinstance(factors, tuple)
        table, error = first_guess(op.lo, op.hi, NEAR_RATIO)
        before = self.unclamped.get(near, whole(near))
        guess = gadgets.table(self.s, before, table, "z")
        _, z = gadgets.residual_of_inverse(self.s, near, guess, 1.0)
        quotient = self.merge((*factors, z), f"{op.x.name}·z")
        hinges = near_one(1.1 * error**2, op.hi / op.lo)
        return z, gadgets.inverse_near_one(self.s, quotient, hinges, f"1/({op.x.name}·z)")

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
        for place, factor in enumerate(ordered):
            early, late = tuple(ordered[:place]), ordered[place + 1 :]
            # Of five factors or more, two heads would follow the reduction if it took no scale.
            if late and (len(late) > 2 or len(ordered) < 5):
                continue
            if isinstance(factor, Reduction) and early:
                scale = self.merge(early)
                if scale.written < factor.written:  # in time for the reduction's own head
                    scaled = factor.scaled(scale, None if late else name)
                    return self.merge((*late, scaled), name)
                ordered = [scale, factor, *late]
                break
        cells = sorted(self.cells(ordered), key=lambda c: c.written)
        # As in Huffman's code, a short product comes first, so that all later ones are full.
        while len(cells) > 1:
            count = min(3, len(cells)) if len(cells) % 2 else 2
            # A product of two frees one cell at most, so it waits for the last possible layer.
            wait = self.s.attention_time([whole(cells[-1])]) - 2 if count < len(cells) == 4 else 0
            forms = [whole(c) for c in cells[:count]]
            first = gadgets.product(self.s, forms, name, self.outputs, not_before=wait)
            cells = sorted([first, *cells[count:]], key=lambda c: c.written)
        return cells[0]

    def cells(self, factors: Sequence[Factor]) -> list[Cell]:
        """The factors as stored; an inverse that comes last and has one partner stays U and W, since one
        head multiplies three numbers."""
        *others, last = factors
        if len(others) == 1 and isinstance(last, Inverse) and last.whole is None:
            return [stored(others[0]), last.u(), last.w]
        return list(map(stored, factors))

    def pair(self, factors: Scalar) -> tuple[Form, Form]:
        """The product as two numbers, for the two scalar slots of a broadcast."""
        ordered = sorted(factors, key=ready_time)
        last, rest = ordered[-1], tuple(ordered[:-1])
        if isinstance(last, Inverse):
            return whole(last.u(self.merge(rest) if rest else None)), whole(last.w)
        other = whole(self.merge(rest)) if rest else self.s.constant()
        return whole(stored(last)), other
