"""Programs whose sums and products are carried out within a token, whatever attention brings to it.

Every token works out the scalars of the recurrence by itself, and multiplies its own vectors by them.
What differs between lowerings is what a vector is at a token, and which heads make products with K.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from ridgeformer.compiler.backends.arithmetic import Product, Sum, TokenArithmetic
from ridgeformer.compiler.circuit import ALL, Cell, Form, Token, is_cell, whole
from ridgeformer.program import ops
from ridgeformer.program.ops import Channel, Op
from ridgeformer.program.ranges import Bounds
from ridgeformer.program.tables import unit_table


@dataclass
class TokenLowering(TokenArithmetic):
    bounds: Bounds = field(default_factory=dict)
    """The ranges of the program's channels, with room for errors where products are interpolated."""
    values: dict[Channel, object] = field(default_factory=dict)
    unclamped: dict[Cell, Form] = field(default_factory=dict)
    vector_tokens: frozenset[Token] = ALL
    """Where the linear part of a variable is written."""
    scalar_tokens: frozenset[Token] = ALL
    """Where reciprocals are worked out."""

    @abstractmethod
    def predict(self, alpha: Cell, step: int, bound: tuple[float, float]) -> None:
        """Notes where the prediction of an iterate is read."""

    def value(self, channel: Channel) -> Sum:
        found = self.values[channel]
        assert isinstance(found, Sum)
        return found

    def store(
        self,
        value: Sum,
        name: str,
        variable: str | None = None,
        not_before: int = 0,
        fine: bool = False,
    ) -> Cell:
        """The value in channels of its own."""
        if not value.products and is_cell(value.linear):
            return value.linear[0].cell
        forms = [value.linear, *(form for _, factors in value.products for form in factors)]
        width = max(self.outputs, *(part.width for form in forms for part in form))
        return self.multiplier.store(
            self.s,
            width,
            value.linear,
            self.pairs(value.products),
            name,
            not_before=not_before,
            fine=fine,
            variable=variable,
            tokens=ALL if variable is None else self.vector_tokens,
        )

    def form(self, channel: Channel) -> Form:
        """A value as something that a head or a neuron can read; stores it only when it must."""
        value = self.value(channel)
        if value.products or value.rows:
            cell = self.store(value, channel.name, channel.variable)
            self.multiplier.know(cell, *self.bounds[channel])
            value = Sum(whole(cell))
            self.values[channel] = value
        return value.linear

    def perform(self, op: Op) -> None:
        self.values[op.out] = self.lower(op)

    def lower(self, op: Op) -> object:
        """What stays within a token; a subclass says how the other operations are done."""
        match op:
            case ops.Combine(terms=terms, constant=constant):
                total = Sum(self.s.common(constant) if constant else ())
                for coefficient, channel in terms:
                    total = total.plus(self.value(channel), coefficient)
                return total
            case ops.Multiply(a=a, b=b):
                return self.multiply(a, b)
            case ops.Clamp(x=x, lo=lo, hi=hi):
                clamped = self.clamp(self.form(x), lo, hi, x.name)
                self.unclamped[clamped] = self.form(x)
                return Sum(whole(clamped))
            case ops.Invert(out=out, x=x, lo=lo, hi=hi):
                form = self.form(x)
                early = self.unclamped.get(form[0].cell, ())
                inverse = self.inverse(form, lo, hi, out.name, early, tokens=self.scalar_tokens)
                return Sum((), ((1.0, inverse),))
            case ops.Unit(out=out, x=x, lo=lo, hi=hi, power=power):
                return Sum(whole(self.table(self.form(x), unit_table(lo, hi, power), out.name)))
            case ops.Hold(x=x, lo=lo, hi=hi):
                return Sum(whole(self.hold(self.form(x), lo, hi, "rho")))
        raise AssertionError(f"no lowering for {op}")

    def multiply(self, a: Channel, b: Channel) -> Sum:
        return times(self.factors(a), self.value(b))

    def factors(self, channel: Channel) -> Product:
        """The value as one product, stored as one number where it is none."""
        return self.value(channel).factors or (1.0, (self.form(channel),))

    def keep(self, channel: Channel, step: int, variable: str) -> None:
        if channel.kind == "scalar":
            self.form(channel)
            return
        cell = self.store(self.value(channel), variable, variable)
        self.multiplier.know(cell, *self.bounds[channel])
        self.values[channel] = Sum(whole(cell))
        self.read(step, variable, cell)
        if variable == "alpha":
            self.predict(cell, step, self.bounds[channel])


def times(product: Product, value: Sum) -> Sum:
    """A product times a value that has no rows."""
    coefficient, factors = product
    products = [(coefficient * c, factors + more) for c, more in value.products]
    if value.linear:
        products.append((coefficient, (*factors, value.linear)))
    return Sum((), tuple(products))
