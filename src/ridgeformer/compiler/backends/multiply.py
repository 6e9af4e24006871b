"""Products within a token: exact with a gated MLP, interpolated with a plain one.

A gated MLP computes x·y = relu(x)·y − relu(−x)·y. A plain ReLU MLP interpolates squares, which give

    a·b = ((s·a + b)² − (s·a − b)²) / 4s.

One layer of n − 1 hinges interpolates x² at n + 1 knots of distance h, with an error in [0, h²/4]. The
error is τ(h − τ) for a triangle wave τ(x) in [0, h] that the same hinges write as well, so the next
layer can square τ in turn, and so on: each further layer divides the error by n².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np

from ridgeformer.compiler.circuit import (
    ALL,
    DATA,
    Builder,
    Cell,
    Form,
    HingeWrite,
    LinearWrite,
    Part,
    ProductWrite,
    Token,
    added,
    entry,
    scaled,
    whole,
)
from ridgeformer.theory import balance

Term = tuple[float, Form, Form]
"""coefficient·a·b"""


@dataclass
class Multiplier:
    """Stores sums of products. This class is for a gated MLP."""

    @property
    def gate(self) -> float:
        """What silences a neuron where it must not act; a gated MLP multiplies by a flag instead."""
        return 1.0

    def know(self, cell: Cell, lo: float, hi: float) -> None:
        """Takes note of a cell's range, which exact products do not need."""

    def lasting(self, cell: Cell) -> None:
        """Takes note that all steps multiply by the cell, which only digits make use of."""

    def store(
        self,
        s: Builder,
        width: int,
        linear: Form,
        products: Sequence[Term],
        name: str,
        *,
        not_before: int = 0,
        fine: bool = True,
        variable: str | None = None,
        tokens: frozenset[Token] = ALL,
    ) -> Cell:
        """linear + Σ coefficient·a·b in a new cell; `fine` if one coarse layer is not enough.

        The linear part is written at the named tokens only, if the products are exact.
        """
        time = start(s, linear, products, not_before)
        out = s.new(name, "everywhere", width, time, variable=variable)
        write_linear(s, time, linear, out, name, tokens)
        for coefficient, a, b in products:
            for o in range(width):
                for sign in (1.0, -1.0):
                    gate = scaled(entry(a, o, width), sign)
                    value = scaled(entry(b, o, width), sign * coefficient)
                    s.write(ProductWrite(time, gate, value, out, o, name))
        return out

    def sum_of_squares(self, s: Builder, scale: float, entries: Sequence[Form], name: str) -> Cell:
        """scale·Σ x²"""
        return self.store(s, 1, (), [(scale, x, x) for x in entries], name)


@dataclass(frozen=True)
class Grid:
    """n intervals in each of several layers."""

    intervals: int
    layers: int = 1

    @property
    def finest(self) -> float:
        """The number of intervals of the last layer into which a range is divided."""
        return float(self.intervals) ** self.layers


FINE_ENOUGH = 2.0**48


def fine_grid(neurons: int) -> Grid:
    """A grid with an error of 2⁻⁴⁸ of the squared range, in layers of at most `neurons` neurons."""
    intervals = max(2, min(64, neurons + 1))
    layers = 1
    while float(intervals) ** (2 * layers) < FINE_ENOUGH:
        layers += 1
    return Grid(intervals, layers)


@dataclass(frozen=True)
class Square:
    """coefficient·x² for x in [lo, hi], to be added to one channel of the result."""

    coefficient: float
    x: Form
    lo: float
    hi: float
    offset: int
    remainder: bool = False
    """Whether the term is x² − hi·x for a triangle wave x in [0, hi], which an interpolant left."""


@dataclass
class SquareMultiplier(Multiplier):
    """Stores sums of products, interpolated, for a plain ReLU MLP."""

    grid: Grid = field(default_factory=lambda: Grid(64))
    """The grid for products that must take one layer, or that need only meet the tolerance."""
    neurons: int = 126
    """The number of neurons that a fine product may take in a layer."""
    ranges: dict[Cell, tuple[float, float]] = field(default_factory=dict)
    largest: float = 1.0
    """A bound on what the neurons of squares read."""

    @property
    def gate(self) -> float:
        """The number that silences them at the aggregator, where a factor may leave its range."""
        return float(2.0 ** ceil(log2(8 * self.largest)))

    def noted(self, squares: list[Square]) -> list[Square]:
        sizes = [max(abs(q.lo), abs(q.hi)) for q in squares]
        chords = [3 * abs(q.coefficient) * x**2 for q, x in zip(squares, sizes, strict=True)]
        self.largest = max(self.largest, *sizes, sum(chords)) if squares else self.largest
        return squares

    def know(self, cell: Cell, lo: float, hi: float) -> None:
        self.ranges[cell] = (lo, hi)

    def range_of(self, form: Form) -> tuple[float, float]:
        lo = hi = 0.0
        for part in form:
            known = (0.0, 1.0) if part.cell.flag else self.ranges[part.cell]
            ends = [part.coefficient * end for end in known]
            lo, hi = lo + min(ends), hi + max(ends)
        return lo, hi

    def squares(self, products: Sequence[Term], width: int) -> list[Square]:
        squares = []
        for coefficient, a, b in products:
            (a_lo, a_hi), (b_lo, b_hi) = self.range_of(a), self.range_of(b)
            if a == b:
                squares += [
                    Square(coefficient, entry(a, o, width), a_lo, a_hi, o) for o in range(width)
                ]
                continue
            scale = balance((a_lo, a_hi), (b_lo, b_hi))
            for o in range(width):
                for sign in (1.0, -1.0):
                    x = added(scaled(entry(a, o, width), scale), scaled(entry(b, o, width), sign))
                    ends = (sign * b_lo, sign * b_hi)
                    lo, hi = scale * a_lo + min(ends), scale * a_hi + max(ends)
                    squares.append(Square(sign * coefficient / (4 * scale), x, lo, hi, o))
        return squares

    def store(
        self,
        s: Builder,
        width: int,
        linear: Form,
        products: Sequence[Term],
        name: str,
        *,
        not_before: int = 0,
        fine: bool = True,
        variable: str | None = None,
        tokens: frozenset[Token] = ALL,
    ) -> Cell:
        time = start(s, linear, products, not_before)
        squares = self.noted(self.squares(products, width))
        grid = fine_grid(self.neurons // max(1, len(squares))) if fine else self.grid
        return add_squares(s, time, width, linear, squares, grid, name, variable)

    def sum_of_squares(self, s: Builder, scale: float, entries: Sequence[Form], name: str) -> Cell:
        squares = self.noted([Square(scale, x, *self.range_of(x), 0) for x in entries])
        grid = fine_grid(self.neurons // len(squares))
        time = s.mlp_time(entries)
        out = add_squares(s, time, 1, (), squares, grid, name)
        self.know(out, 0.0, scale * sum(max(q.lo**2, q.hi**2) for q in squares))
        return out


def add_squares(
    s: Builder,
    time: int,
    width: int,
    linear: Form,
    squares: Sequence[Square],
    grid: Grid,
    name: str,
    variable: str | None = None,
) -> Cell:
    """linear + Σ coefficient·x², by as many layers as the grid has.

    At the aggregator there are no squares: vectors are 0 there, and a product that is 0 only up to
    round-off would be fed back to it by its own attention at every step.
    """
    for layer in range(grid.layers):
        last = layer == grid.layers - 1
        out = s.new(name, "everywhere", width, time, variable=variable)
        squares = square_layer(s, time, linear, squares, grid, out, last=last)
        linear, time = whole(out), time + 2
    return out


def square_layer(
    s: Builder,
    time: int,
    linear: Form,
    squares: Sequence[Square],
    grid: Grid,
    out: Cell,
    *,
    last: bool,
) -> list[Square]:
    """Writes linear + the interpolants of all squares, and returns their remainders."""
    name = out.name
    extra: list[Form] = [() for _ in range(out.width)]
    left = []
    for q in squares:
        knots = np.linspace(q.lo, q.hi, grid.intervals + 1)
        # Their difference would carry the round-off of two knots into all weights.
        h, inner = (q.hi - q.lo) / grid.intervals, knots[1:-1]
        # x² ≈ (x₀ + x₁)·x − x₀x₁ + Σ 2h·relu(x − x_i), the first chord and then its kinks
        slope = knots[0] + knots[1] - (q.hi if q.remainder else 0.0)
        chord = added(scaled(q.x, slope), s.common(-knots[0] * knots[1]))
        extra[q.offset] = added(extra[q.offset], scaled(chord, q.coefficient))
        also: tuple[tuple[Cell, int, np.ndarray], ...] = ()
        if not last:
            # The same kinks, up and down, make the wave τ in [0, h] with x² = interpolant + τ² − h·τ.
            wave = s.new("τ", "everywhere", 1, time)
            write_linear(s, time, added(q.x, s.common(-knots[0])), wave, "τ")
            also = ((wave, 0, 2.0 * (-1.0) ** np.arange(1, len(inner) + 1)),)
            left.append(Square(q.coefficient, whole(wave), 0.0, h, q.offset, remainder=True))
        ones, weights = np.ones_like(inner), np.full_like(inner, 2 * h * q.coefficient)
        s.write(HingeWrite(time, q.x, ones, -inner, weights, 0.0, out, q.offset, DATA, name, also))
    write_linear(s, time, linear, out, name)
    for o, form in enumerate(extra):
        if form:
            s.write(LinearWrite(time, form, out, DATA, name, o))
    return left


def start(s: Builder, linear: Form, products: Sequence[Term], not_before: int) -> int:
    return max(s.mlp_time([linear, *(form for _, a, b in products for form in (a, b))]), not_before)


def write_linear(
    s: Builder,
    time: int,
    linear: Form,
    out: Cell,
    name: str,
    tokens: frozenset[Token] = ALL,
) -> None:
    """out += linear, where a part of one channel serves every output."""
    wide = tuple(p for p in linear if p.width == out.width)
    narrow = tuple(Part(p.coefficient, p.cell, p.offset, 1) for p in linear if p.width != out.width)
    if wide:
        s.write(LinearWrite(time, wide, out, tokens, name))
    if narrow:
        for o in range(out.width):
            s.write(LinearWrite(time, narrow, out, tokens, name, o))
