"""Polynomial kernels: (⟨a, b⟩ + c)^d is a dot product of monomials, which a gated MLP multiplies out.

By the multinomial theorem  (⟨a, b⟩ + c)^d = Σ_m d!/(m!(d − |m|)!)·c^{d−|m|}·a^m b^m  over exponents
|m| ≤ d, so each monomial x^m is a feature, with the root of its coefficient in front.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt

from ridgeformer.compiler.schedule import (
    DATA,
    Cell,
    Form,
    LinearWrite,
    ProductWrite,
    Schedule,
    piece,
    scaled,
    whole,
)
from ridgeformer.kernels import Polynomial
from ridgeformer.types import Refusal

Monomial = tuple[int, ...]
"""The factors by index, in order; (0, 0, 2) is x₀²x₂."""

MOST_MONOMIALS = 4096


def monomials(features: int, kernel: Polynomial) -> list[Monomial]:
    least = 0 if kernel.offset else kernel.degree
    return [
        m
        for size in range(least, kernel.degree + 1)
        for m in combinations_with_replacement(range(features), size)
    ]


def root_coefficient(monomial: Monomial, kernel: Polynomial) -> float:
    size, degree = len(monomial), kernel.degree
    repeats = prod(factorial(monomial.count(index)) for index in set(monomial))
    ways = factorial(degree) / (repeats * factorial(degree - size))
    return sqrt(ways * kernel.offset ** (degree - size))


def polynomial_features(s: Schedule, phi: Cell, kernel: Polynomial) -> Cell:
    """A cell with every weighted monomial, 0 at the aggregator."""
    if kernel.degree not in (1, 2, 3):
        raise Refusal(
            f"A polynomial kernel compiles for degree 1, 2 or 3, got {kernel.degree}: each further "
            "degree would take another layer and multiply the width."
        )
    count = comb(phi.width + kernel.degree, kernel.degree)
    if count > MOST_MONOMIALS:
        raise Refusal(
            f"{count:,} monomials would be needed, more than {MOST_MONOMIALS:,}: use fewer features or "
            "a lower degree."
        )
    wanted = monomials(phi.width, kernel)
    pairs: dict[Monomial, Form] = {}
    time = 1
    if kernel.degree == 3:  # x_a·x_b first, then a third factor
        names = list(combinations_with_replacement(range(phi.width), 2))
        cell = s.new("x·x", "data", len(names), time)
        for offset, (a, b) in enumerate(names):
            multiply(s, time, one(phi, a), one(phi, b), cell, offset)
            pairs[(a, b)] = one(cell, offset)
        time += 2
    out = s.new("ψ", "data", len(wanted), time)
    out.keep = True
    for offset, m in enumerate(wanted):
        weight = root_coefficient(m, kernel)
        if len(m) == kernel.degree and len(m) > 1:
            first = one(phi, m[0]) if len(m) == 2 else pairs[m[:2]]
            multiply(s, time, first, scaled(one(phi, m[-1]), weight), out, offset)
            continue
        form = whole(s.support) + whole(s.query)
        if len(m) == 1:
            form = one(phi, m[0])
        elif m:
            form = pairs[m]
        s.write(LinearWrite(time, scaled(form, weight), out, DATA, "ψ", offset))
    return out


def one(cell: Cell, index: int) -> Form:
    return piece(whole(cell), index, 1)


def multiply(s: Schedule, time: int, a: Form, b: Form, out: Cell, offset: int) -> None:
    """x·y = relu(x)·y − relu(−x)·y"""
    for sign in (1.0, -1.0):
        s.write(ProductWrite(time, scaled(a, sign), scaled(b, sign), out, offset, "monomials"))
