"""Features that a token computes from its own φ before the solver begins, as in `FeatureMap`."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from ridgeformer.compiler.circuit import (
    DATA,
    Builder,
    Cell,
    Form,
    HingeWrite,
    LinearWrite,
    Part,
    Place,
    ProductWrite,
    piece,
    scaled,
    whole,
)
from ridgeformer.kernels import FeatureMap, Monomial


def token_features(s: Builder, phi: Cell, features: FeatureMap, place: Place) -> Cell:
    """u(φ), which is 0 at the aggregator; `phi` already holds the projection."""
    u = phi if features.hidden is None else rectified(s, phi, features, place)
    return u if features.monomials is None else monomials(s, u, features.monomials, place)


def rectified(s: Builder, phi: Cell, features: FeatureMap, place: Place) -> Cell:
    """relu(Wx + b), one neuron for each entry."""
    assert features.hidden is not None
    weights, bias = (part.double().numpy() for part in features.hidden)
    time = s.mlp_time([whole(phi)])
    out = s.new("h", place, len(bias), time)
    s.kept.add(out)
    unit = np.ones(1)
    for offset, (row, constant) in enumerate(zip(weights, bias, strict=True)):
        x = tuple(Part(float(weight), phi, i, 1) for i, weight in enumerate(row))
        s.write(HingeWrite(time, x, unit, constant * unit, unit, 0.0, out, offset, DATA, "h"))
    return out


def monomials(s: Builder, x: Cell, wanted: tuple[Monomial, ...], place: Place) -> Cell:
    """A cell with every weighted monomial; a product of three is made from a product of two."""
    pairs: dict[tuple[int, ...], Form] = {}
    time, degree = s.mlp_time([whole(x)]), max(len(m.indices) for m in wanted)
    if degree == 3:
        names = list(combinations_with_replacement(range(x.width), 2))
        cell = s.new("x·x", place, len(names), time)
        for offset, (a, b) in enumerate(names):
            multiply(s, time, one(x, a), one(x, b), cell, offset)
            pairs[(a, b)] = one(cell, offset)
        time += 2
    out = s.new("ψ", place, len(wanted), time)
    s.kept.add(out)
    for offset, m in enumerate(wanted):
        if len(m.indices) == degree and degree > 1:
            first = one(x, m.indices[0]) if degree == 2 else pairs[m.indices[:2]]
            multiply(s, time, first, scaled(one(x, m.indices[-1]), m.weight), out, offset)
            continue
        form = whole(s.support) + whole(s.query)
        if len(m.indices) == 1:
            form = one(x, m.indices[0])
        elif m.indices:
            form = pairs[m.indices]
        s.write(LinearWrite(time, scaled(form, m.weight), out, DATA, "ψ", offset))
    return out


def one(cell: Cell, index: int) -> Form:
    return piece(whole(cell), index, 1)


def multiply(s: Builder, time: int, a: Form, b: Form, out: Cell, offset: int) -> None:
    """x·y = relu(x)·y − relu(−x)·y"""
    for sign in (1.0, -1.0):
        s.write(ProductWrite(time, scaled(a, sign), scaled(b, sign), out, offset, "monomials"))
