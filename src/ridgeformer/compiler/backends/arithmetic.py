"""Arithmetic within a token: sums and products of what it holds, tables and reciprocals.

Nothing is stored before it must be. A product stays a list of factors; when it is needed, the
factors that are ready first are multiplied first, so that the last one never waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ridgeformer.compiler.backends.lowering import Lowering
from ridgeformer.compiler.backends.multiply import Multiplier, Term, write_linear
from ridgeformer.compiler.circuit import (
    ALL,
    Cell,
    Form,
    HingeWrite,
    Token,
    added,
    entry,
    form_key,
    ready,
    scaled,
    whole,
)
from ridgeformer.program.tables import HingeTable, reciprocal_table

Product = tuple[float, tuple[Form, ...]]
"""coefficient·a·b·…"""


@dataclass(frozen=True)
class Sum:
    """linear + Σ coefficient·a·b·… + D⊙rows, not yet stored."""

    linear: Form = ()
    products: tuple[Product, ...] = ()
    rows: Form = ()

    def plus(self, other: Sum, coefficient: float) -> Sum:
        more = tuple((coefficient * c, factors) for c, factors in other.products)
        return Sum(
            added(self.linear, scaled(other.linear, coefficient)),
            self.products + more,
            added(self.rows, scaled(other.rows, coefficient)),
        )

    @property
    def factors(self) -> Product | None:
        """The value as one product, if it is one."""
        if self.rows or (self.linear and self.products) or len(self.products) > 1:
            return None
        if self.products:
            return self.products[0]
        if len(self.linear) == 1:  # a multiple of one cell is that cell and a coefficient
            part = self.linear[0]
            return part.coefficient, (scaled(self.linear, 1 / part.coefficient),)
        return 1.0, (self.linear,)


def name_of(form: Form) -> str:
    """What a factor is called: its first cell, or the correction of a reciprocal, which begins with 1."""
    return "(1 + de + fe²)" if form[0].cell.flag else form[0].cell.name


@dataclass
class TokenArithmetic(Lowering):
    multiplier: Multiplier = field(default_factory=Multiplier)
    partial: dict[object, Form] = field(default_factory=dict)
    """Products of two factors that are already stored."""

    def pairs(self, products: Sequence[Product]) -> list[Term]:
        """The products as terms of two factors each; the earliest factors are multiplied first."""
        terms = []
        for coefficient, factors in products:
            left = sorted(factors, key=lambda f: ready([f]))
            while len(left) > 2:
                left = sorted([self.product(*left[:2]), *left[2:]], key=lambda f: ready([f]))
            terms.append((coefficient, left[0], left[1]))
        return terms

    def product(self, a: Form, b: Form) -> Form:
        key = tuple(sorted((form_key(a), form_key(b))))
        if key not in self.partial:
            width = max(p.width for p in a + b)
            name = f"{name_of(a)}·{name_of(b)}"
            out = self.multiplier.store(self.s, width, (), [(1.0, a, b)], name)
            self.partial[key] = whole(out)
        return self.partial[key]

    def bent(
        self,
        x: Form,
        slopes: Sequence[float] | np.ndarray,
        biases: Sequence[float] | np.ndarray,
        weights: Sequence[float] | np.ndarray,
        name: str,
        *,
        constant: float = 0.0,
        linear: Form = (),
        not_before: int = 0,
        tokens: frozenset[Token] = ALL,
    ) -> Cell:
        """linear + constant + Σ w·relu(slope·x + bias), entry by entry."""
        time = max(self.s.mlp_time([x, linear]), not_before)
        width = x[0].width
        out = self.s.new(name, "everywhere", width, time)
        write_linear(self.s, time, linear, out, name)
        a, b, c = (np.asarray(part, dtype=float) for part in (slopes, biases, weights))
        for o in range(width):
            at = entry(x, o, width)
            self.s.write(HingeWrite(time, at, a, b, c, constant, out, o, tokens, name))
        return out

    def table(
        self,
        x: Form,
        table: HingeTable,
        name: str,
        not_before: int = 0,
        tokens: frozenset[Token] = ALL,
    ) -> Cell:
        root, constant = np.sqrt(table.knots), table.constant
        slopes, biases = -1 / root, table.knots / root
        return self.bent(
            x, slopes, biases, table.weights, name,
            constant=constant, not_before=not_before, tokens=tokens,
        )  # fmt: skip

    def clamp(self, x: Form, lo: float, hi: float, name: str) -> Cell:
        """x + relu(lo − x) − relu(x − hi)"""
        return self.bent(x, [-1.0, 1.0], [lo, -hi], [1.0, -1.0], name, linear=x)

    def hold(self, x: Form, lo: float, hi: float, name: str) -> Cell:
        """0 below lo, x above hi: x − a·relu(hi − x) + (1 + a)·relu(lo − x) with a = lo/(hi − lo)."""
        a = lo / (hi - lo)
        return self.bent(x, [-1.0, -1.0], [hi, lo], [-a, 1 + a], name, linear=x)

    def inverse(
        self,
        x: Form,
        lo: float,
        hi: float,
        name: str,
        early: Form = (),
        not_before: int = 0,
        tokens: frozenset[Token] = ALL,
    ) -> tuple[Form, Form]:
        """1/x for x in [lo, hi] as a product of two factors.

        They are the table's guess as corrected by `Reciprocal`, and the last factor of that
        correction, which a consumer can first multiply with what it already has. The table is
        constant outside its range, so it may read x before it is clamped (`early`). At tokens that
        are not named, the guess is 0 and so is the inverse.
        """
        correction, width = reciprocal_table(lo, hi), x[0].width

        def store(
            linear: Form, products: list[Term], called: str, least: float, most: float
        ) -> Form:
            cell = self.multiplier.store(self.s, width, linear, products, called)
            self.multiplier.know(cell, least, most)
            return whole(cell)

        ends = (0.98 / hi, 1.02 / lo)
        guess = self.table(early or x, correction.table, name, not_before, tokens)
        self.multiplier.know(guess, *ends)
        z = whole(guess)
        e = store(self.s.common(), [(-1.0, z, x)], "1 − x·z", -0.02, 0.02)
        square = store((), [(1.0, e, e)], "e²", 0.0, 4e-4)
        z = store(z, [(correction.a, z, e)], name, *ends)
        z = store(z, [(correction.b, z, e), (correction.c, z, square)], name, *ends)
        return z, self.s.common() + scaled(e, correction.d) + scaled(square, correction.f)

    def reciprocal(self, x: Form, lo: float, hi: float, name: str, not_before: int = 0) -> Cell:
        """1/x in one cell."""
        z, factor = self.inverse(x, lo, hi, name, not_before=not_before)
        # z·(1 + d·e + f·e²), with the small terms apart from z, whose range they do not share
        rest = tuple(part for part in factor if not part.cell.flag)
        products = [(part.coefficient, z, whole(part.cell)) for part in rest]
        out = self.multiplier.store(self.s, x[0].width, z, products, name)
        self.multiplier.know(out, 0.98 / hi, 1.02 / lo)
        return out
