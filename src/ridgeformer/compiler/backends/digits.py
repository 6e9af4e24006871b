"""Products with a number whose binary digits are known, in a plain ReLU MLP.

A factor w that depends on the data alone is written once as digits d₁ … d_M, channels that are exactly 0
or 1, and a digit multiplies any b with |b| ≤ G exactly:

    g(d, b) = relu(b − G(1 − d)) − relu(−b − G(1 − d)),   so that   w·b ≈ Σ_m 2⁻ᵐ g(d_m, b).

A digit must change continuously, and next to a multiple of 2⁻ᴹ it is a fraction, where the sum is wrong.
There are therefore two sets of digits, of w and of w + 2⁻ᴹ/2, which are never fractions at the same place,
and θ, also worked out once, says which of them counts. The second layer of a product chooses:

    w·b ≈ P_B + g(θ, P_A − P_B).

Where θ is a fraction both are right, and so is everything between them. The error is hardly more than
¼·2⁻ᴹ|b| everywhere: 4M neurons buy what interpolation buys with about 2ᴹᐟ².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log2

import numpy as np

from ridgeformer.compiler.backends.multiply import (
    SquareMultiplier,
    Term,
    start,
    write_linear,
)
from ridgeformer.compiler.circuit import (
    ALL,
    SUPPORT,
    Builder,
    Cell,
    Form,
    HingeWrite,
    LinearWrite,
    Token,
    added,
    entry,
    scaled,
    whole,
)
from ridgeformer.theory import unit_of_digits

RAMP = 1 / 16
"""Half the width of the places where a digit is a fraction, in units of the last digit."""

NEAR = 4.0
"""At how many times that distance θ begins to turn away from the first set of digits."""


@dataclass(frozen=True)
class Digits:
    """What a token holds instead of a number: its binary digits twice, and which of them count."""

    unit: float
    first: tuple[Cell, ...]
    """The digits of w, each exactly 0 or 1 where θ is not 0."""
    second: tuple[Cell, ...]
    """The digits of w + 2⁻ᴹ/2, each exactly 0 or 1 where θ is not 1."""
    theta: Cell

    @property
    def forms(self) -> list[Form]:
        return [whole(cell) for cell in (*self.first, *self.second, self.theta)]


def write_digits(s: Builder, w: Cell, count: int, unit: float) -> Digits:
    """The digits of w/unit at the supports; everything is 0 at other tokens."""
    time = s.mlp_time([whole(w)])
    rest = [s.new(name, "everywhere", 1, time) for name in ("x", "x'")]
    shifts: tuple[Form, Form] = ((), (whole(s.support, 2.0 ** -(count + 1))))
    for cell, shift in zip(rest, shifts, strict=True):
        s.write(LinearWrite(time, added(whole(w, 1 / unit), shift), cell, SUPPORT, cell.name))
    sets: tuple[list[Cell], list[Cell]] = ([], [])
    near: Cell | None = None
    for m in range(1, count + 1):
        steepness = 1 / (RAMP * 2.0 ** (m - 1 - count))
        near, rest = one_digit(s, rest, near, sets, steepness, f"{m}")
    assert near is not None
    time = s.mlp_time([whole(near)])
    theta = s.new("θ", "everywhere", 1, time)
    hinge(s, time, whole(near), -1.0, 1.0, theta)
    return Digits(unit, tuple(sets[0]), tuple(sets[1]), theta)


def one_digit(
    s: Builder,
    rest: list[Cell],
    near: Cell | None,
    sets: tuple[list[Cell], list[Cell]],
    steepness: float,
    label: str,
) -> tuple[Cell, list[Cell]]:
    """One digit of both sets in two layers, with z = steepness·(x − ½).

    First t = relu(½ − z/2) and |z|, then the digit relu(1 − t), which saturates without round-off; the
    remainder 2x − digit; and relu(4 − |z|), added up to what tells that some digit is a fraction.
    """
    time = s.mlp_time([whole(x) for x in rest])
    later = time + 2
    remainders = []
    for x, digits in zip(rest, sets, strict=True):
        t = s.new("t", "everywhere", 1, time)
        hinge(s, time, whole(x), -steepness / 2, 0.5 + steepness / 4, t)
        digit = s.new(f"{'d' if digits is sets[0] else 'e'}{label}", "everywhere", 1, later)
        remainder = s.new(x.name, "everywhere", 1, later)
        s.write(LinearWrite(later, whole(x, 2.0), remainder, SUPPORT, x.name))
        hinge(s, later, whole(t), -1.0, 1.0, digit, also=((remainder, 0, np.array([-1.0])),))
        digits.append(digit)
        remainders.append(remainder)
    distance = s.new("|z|", "everywhere", 1, time)
    for sign in (1.0, -1.0):
        hinge(s, time, whole(rest[0]), sign * steepness, -sign * steepness / 2, distance)
    sum_so_far = s.new("near", "everywhere", 1, later)
    if near is not None:
        s.write(LinearWrite(later, whole(near), sum_so_far, SUPPORT, "near"))
    hinge(s, later, whole(distance), -1.0, NEAR, sum_so_far)
    return sum_so_far, remainders


def hinge(
    s: Builder,
    time: int,
    x: Form,
    slope: float,
    bias: float,
    out: Cell,
    *,
    weight: float = 1.0,
    offset: int = 0,
    also: tuple[tuple[Cell, int, np.ndarray], ...] = (),
) -> None:
    """out[offset] += weight·relu(slope·x + bias) at the supports."""
    a, b, w = (np.array([value]) for value in (slope, bias, weight))
    s.write(HingeWrite(time, x, a, b, w, 0.0, out, offset, SUPPORT, out.name, also))


@dataclass
class DigitMultiplier(SquareMultiplier):
    """Products with numbers that stay the same, by digits, and all others by fine squares."""

    count: int = 16
    """The number of digits."""
    factor: Cell | None = None
    """The number that stays the same, w."""
    digits: Digits | None = None

    def lasting(self, cell: Cell) -> None:
        self.factor = cell

    def known_digits(self, s: Builder) -> Digits:
        assert self.factor is not None
        if self.digits is None:
            unit = unit_of_digits(self.ranges[self.factor][1])
            self.digits = write_digits(s, self.factor, self.count, unit)
            # To clear them all would take more neurons in the last step than any other step has.
            s.kept.update(self.digits.first, self.digits.second)
        return self.digits

    def multiplied(self, products: Sequence[Term]) -> Form:
        """The b for which the sum of the products is w·b."""
        assert self.factor is not None
        form: Form = ()
        for coefficient, first, second in products:
            assert whole(self.factor) in (first, second), "digits are known of one number only"
            b = second if first == whole(self.factor) else first
            form = added(form, scaled(b, coefficient))
        return form

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
        if fine or not products:
            return super().store(
                s, width, linear, products, name,
                not_before=not_before, fine=True, variable=variable, tokens=tokens,
            )  # fmt: skip
        digits, b = self.known_digits(s), self.multiplied(products)
        least, most = self.range_of(b)
        largest = max(-least, most)
        gate = 2 * power_of_two(largest)
        time = max(start(s, linear, products, not_before), s.mlp_time(digits.forms))
        part = s.new(name, "everywhere", width, time)
        apart = s.new(f"{name} of A − B", "everywhere", width, time)
        write_linear(s, time, linear, part, name, tokens)
        last = digits.unit * 2.0 ** -len(digits.first)
        s.write(LinearWrite(time, scaled(b, last / 2), apart, SUPPORT, name))
        for m, (one, other) in enumerate(zip(digits.first, digits.second, strict=True), start=1):
            weight = digits.unit * 2.0**-m
            for o in range(width):
                for sign in (1.0, -1.0):
                    value = scaled(entry(b, o, width), sign)
                    gated = sign * weight
                    also = ((part, o, np.array([gated])),)
                    passed(s, time, value, one, gate, apart, gated, o)
                    passed(s, time, value, other, gate, apart, -gated, o, also)
        out = s.new(name, "everywhere", width, time + 2, variable=variable)
        write_linear(s, time + 2, whole(part), out, name, tokens)
        second_gate = 2 * power_of_two(2 * digits.unit * largest)
        self.largest = max(self.largest, 4 * gate, 4 * second_gate)
        for o in range(width):
            for sign in (1.0, -1.0):
                value = scaled(entry(whole(apart), o, width), sign)
                passed(s, time + 2, value, digits.theta, second_gate, out, sign, o)
        return out


def passed(
    s: Builder,
    time: int,
    value: Form,
    digit: Cell,
    gate: float,
    out: Cell,
    weight: float,
    offset: int,
    also: tuple[tuple[Cell, int, np.ndarray], ...] = (),
) -> None:
    """out[offset] += weight·relu(value − G(1 − digit))"""
    form = added(value, whole(digit, gate))
    hinge(s, time, form, 1.0, -gate, out, weight=weight, offset=offset, also=also)


def power_of_two(x: float) -> float:
    return float(2.0 ** (floor(log2(x)) + 1))
