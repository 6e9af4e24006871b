"""The building blocks of linear attention, each derived beside the weights that it asks for.

A head computes out_j = Σ_i (q_j·k_i) v_i with q, k, v linear in the stream: a sum over tokens of
products of three token-wise linear forms. Supports hold vectors, one entry each; the aggregator
holds scalars. A flag that only the aggregator has, written 1 below, says who takes part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeformer.compiler.circuit import (
    AGGREGATOR,
    Builder,
    Cell,
    Form,
    HingeWrite,
    LinearWrite,
    Output,
    Token,
    piece,
    scaled,
    whole,
)
from ridgeformer.program.tables import HingeTable, NearOne, Reciprocal


def matvec(s: Builder, phi: Cell, v: Form, name: str, variable: str | None = None) -> Cell:
    """Lemma A. K v in one head, shared by all outputs.

    q_j = φ_j, k_i = φ_i, v_i = v_i:  Σ_i (φ_j·φ_i) v_i = (Kv)_j at supports, and k(x)ᵀv at a query.
    The aggregator's φ is 0, so it neither gives nor takes. A query reads itself too, and adds
    |φ(x)|²·v(x), so v must be 0 there, which the lowering ensures.
    """
    assert not any(part.cell.dirty for part in v), "a mat-vec source must vanish at the queries"
    time = s.attention_time([whole(phi), v])
    out = s.new(name, "data", v[0].width, time, dirty=True)
    phi_form = [whole(phi)]
    s.head(
        time, "matvec", name, "data", "data", phi_form, phi_form, [Output(v, out)],
        variable=variable,
    )  # fmt: skip
    return out


def reduction(s: Builder, u: Form, v: Form, scale: Form | None, name: str) -> Cell:
    """Lemma B, first half. a·uᵀv at the aggregator, one head per output.

    q = a (a scalar that the aggregator holds, or 1), k_i = u_i, v_i = v_i:  Σ_i a·u_i·v_i.
    """
    outputs = u[0].width
    forms = [u, v, scale or s.constant()]
    time = s.attention_time(forms)
    out = s.new(name, "aggregator", outputs, time)
    for o in range(outputs):
        q = piece(scale, o, 1) if scale else s.constant()
        s.head(
            time,
            "reduction",
            name,
            "aggregator",
            "data",
            [q],
            [piece(u, o, 1)],
            [Output(piece(v, o, 1), out, o)],
        )
    return out


def broadcast(
    s: Builder, time: int, a: Form, b: Form, v: Form, out: Cell, outputs: int, label: str
) -> None:
    """Lemma B, second half. out_j += a·b·v_j at the supports, one head per output.

    q_j = v_j, k = a, v = b, where a and b live at the aggregator alone:  v_j·a·b. The product of the
    two scalars costs nothing.
    """
    for o in range(outputs):
        q, left, right = piece(v, o, 1), spread(a, o), spread(b, o)
        s.head(time, "broadcast", label, "data", "aggregator", [q], [left], [Output(right, out, o)])


def update(
    s: Builder, time: int, form: Form, out: Cell, tokens: frozenset[Token], label: str
) -> None:
    """Lemma C. out += a linear form of the token's own channels, exactly: x = relu(x) − relu(−x)."""
    s.write(LinearWrite(time, form, out, tokens, label))


def product(
    s: Builder, factors: Sequence[Form], name: str | None, width: int, not_before: int = 0
) -> Cell:
    """A product of up to three scalars: the aggregator attends to itself.

    The query slot must be a channel that no vector shares, so constants and late factors, which are
    short-lived, go there.
    """
    padded = [*[s.constant()] * (3 - len(factors)), *reversed(factors)]
    time = max(not_before, s.attention_time(padded))
    name = name or "·".join(form[0].cell.name for form in factors)
    out = s.new(name, "aggregator", width, time)
    for o in range(width):
        q, k, v = (spread(f, o) for f in padded)
        s.head(time, "product", name, "aggregator", "aggregator", [q], [k], [Output(v, out, o)])
    return out


def spread(form: Form, output: int) -> Form:
    """The entry of one output; a constant serves all outputs."""
    return form if form[0].width == 1 and form[0].cell.width == 1 else piece(form, output, 1)


def table(s: Builder, x: Cell | Form, hinges: HingeTable, name: str) -> Cell:
    """A decreasing convex function of a scalar: hinges open to the left, with positive weights."""
    x = whole(x) if isinstance(x, Cell) else x
    time, width = s.mlp_time([x]), x[0].width
    out = s.new(name, "aggregator", width, time)
    for o in range(width):
        hinge_write(s, time, piece(x, o, 1), hinges, out, o, AGGREGATOR, name)
    return out


def hinge_write(
    s: Builder,
    time: int,
    x: Form,
    hinges: HingeTable,
    out: Cell,
    offset: int,
    tokens: frozenset[Token],
    label: str,
    shift: float = 0.0,
) -> None:
    """out += the table at x + shift."""
    root = np.sqrt(hinges.knots)
    slopes, biases = -1 / root, (hinges.knots - shift) / root
    weights, constant = hinges.weights, hinges.constant
    s.write(HingeWrite(time, x, slopes, biases, weights, constant, out, offset, tokens, label))


def bent(
    s: Builder,
    x: Cell | Form,
    slopes: Sequence[float] | np.ndarray,
    biases: Sequence[float] | np.ndarray,
    weights: Sequence[float] | np.ndarray,
    name: str,
) -> Cell:
    """x + Σ w·relu(slope·x + bias), in the channels of x if x itself is not needed later."""
    x = whole(x) if isinstance(x, Cell) else x
    time, width = s.mlp_time([x]), x[0].width
    out = s.new(name, "aggregator", width, time)
    update(s, time, x, out, AGGREGATOR, name)
    a, b, w = (np.asarray(values, dtype=float) for values in (slopes, biases, weights))
    for o in range(width):
        s.write(HingeWrite(time, piece(x, o, 1), a, b, w, 0.0, out, o, AGGREGATOR, name))
    return out


def clamp(s: Builder, x: Cell | Form, lo: float, hi: float, name: str) -> Cell:
    """x + relu(lo − x) − relu(x − hi)."""
    return bent(s, x, [-1.0, 1.0], [lo, -hi], [1.0, -1.0], name)


def hold(s: Builder, x: Cell, lo: float, hi: float, name: str) -> Cell:
    """0 below lo, x above hi: x − a·relu(hi − x) + (1 + a)·relu(lo − x) with a = lo/(hi − lo)."""
    a = lo / (hi - lo)
    return bent(s, x, [-1.0, -1.0], [hi, lo], [-a, 1 + a], name)


def residual_of_inverse(s: Builder, x: Cell, z: Cell, a: float) -> tuple[Cell, Cell]:
    """e = 1 − x·z and z + a·e·z, in one head: q = (1, z), k = (1, −x), v = (1, a·z)."""
    time = s.attention_time([whole(x), whole(z)])
    e = s.new("e", "aggregator", x.width, time)
    better = s.new("z", "aggregator", x.width, time)
    s.copy(better, whole(z))
    for o in range(x.width):
        xo, zo = piece(whole(x), o, 1), piece(whole(z), o, 1)
        outputs = [Output(s.constant(), e, o), Output(scaled(zo, a), better, o)]
        s.head(
            time,
            "reciprocal",
            "1 − x·z",
            "aggregator",
            "aggregator",
            [s.constant(), zo],
            [s.constant(), scaled(xo, -1.0)],
            outputs,
        )
    return e, better


def times_quadratic(
    s: Builder, v: Form, e: Cell, b: float, c: float, name: str, in_place: bool = False
) -> Cell:
    """v·(1 + b·e + c·e²) for a scalar v, in one head: q = (1, e), k = (1, b + c·e).

    If `in_place`, the channels already hold v, and only its correction is added.
    """
    time = s.attention_time([v, whole(e)])
    out = s.new(name, "aggregator", e.width, time)
    if in_place:
        s.copy(out, v)
    for o in range(e.width):
        eo = piece(whole(e), o, 1)
        q, k = [eo], [s.constant(b) + scaled(eo, c)]
        if not in_place:
            q, k = [s.constant(), *q], [s.constant(), *k]
        written = [Output(spread(v, o), out, o)]
        s.head(time, "reciprocal", name, "aggregator", "aggregator", q, k, written)
    return out


def inverse_near_one(s: Builder, q: Cell, hinges: NearOne, name: str) -> Cell:
    """1/q for q near 1, in the channels of q: what is added there is small."""
    return bent(s, q, hinges.slopes, hinges.biases, hinges.weights, name)


class Inverse:
    """1/x as a product of two scalars, U·W, ready two layers after the table's first guess.

    U = 1 + b·e + c·e² has a free factor, so that whatever multiplies 1/x is absorbed on the way:
    a consumer pays no layer for it.
    """

    def __init__(
        self, s: Builder, guess: Cell, x: Cell, correction: Reciprocal, name: str = "1/x"
    ) -> None:
        self.s, self.correction, self.name = s, correction, name
        self.e, z = residual_of_inverse(s, x, guess, correction.a)
        d, f = correction.d, correction.f
        self.w = times_quadratic(s, whole(z), self.e, d, f, "W", in_place=True)
        self.absorbed: dict[Cell | None, Cell] = {}
        self.whole: Cell | None = None

    def u(self, factor: Cell | None = None) -> Cell:
        if factor not in self.absorbed:
            form = whole(factor) if factor else self.s.constant()
            c = self.correction
            self.absorbed[factor] = times_quadratic(self.s, form, self.e, c.b, c.c, "U")
        return self.absorbed[factor]

    def value(self) -> Cell:
        """1/x itself, a layer later: W·(1 + b·e + c·e²)."""
        if self.whole is None:
            b, c = self.correction.b, self.correction.c
            self.whole = times_quadratic(
                self.s, whole(self.w), self.e, b, c, self.name, in_place=True
            )
        return self.whole
