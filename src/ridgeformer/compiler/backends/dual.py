"""Linear attention, prefix mask: the dual iteration, with one entry of each vector per support."""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeformer.compiler.backends import gadgets
from ridgeformer.compiler.backends.factors import Diagonal, FactorLowering, Vector
from ridgeformer.compiler.circuit import (
    QUERY,
    SUPPORT,
    Cell,
    Form,
    LinearWrite,
    Part,
    Place,
    ProductWrite,
    form_key,
    is_cell,
    piece,
    scaled,
    whole,
)
from ridgeformer.program.ops import Kind
from ridgeformer.program.tables import reciprocal_table
from ridgeformer.types import Refusal


@dataclass
class DualLowering(FactorLowering):
    fits: dict[object, Cell] = field(default_factory=dict)
    """K v for the forms v whose product is in the stream; at a query, a fit is a prediction."""

    def cell(self, kind: Kind, name: str, written: int) -> Cell:
        place: Place = "data" if kind == "vector" else "aggregator"
        return self.s.new(name, place, self.outputs, written, variable=name)

    def target(self) -> Form:
        return whole(self.y)

    def matvec(self, v: Form, name: str, variable: str | None) -> Cell:
        key = form_key(v)
        if key not in self.fits:
            if any(part.cell.dirty for part in v):
                # A query would read its own entry, so v is stored without it first.
                v = whole(self.by_mlp(Vector(v), name.removeprefix("K"), variable))
            self.fits[key] = gadgets.matvec(self.s, self.phi, v, name, variable)
        return self.fits[key]

    def dot(self, u: Form, v: Form, scale: Form | None, name: str) -> Cell:
        return gadgets.reduction(self.s, u, v, scale, name)

    def store(self, vector: Vector, name: str, variable: str | None = None) -> Cell:
        if not vector.scaled and not vector.gated and is_cell(vector.linear):
            return vector.linear[0].cell
        by = self.by_attention if vector.scaled else self.by_mlp
        return by(vector, name, variable)

    def by_attention(
        self, vector: Vector, name: str, variable: str | None = None, clean: bool = True
    ) -> Cell:
        """linear + Σ a·b·v. `clean` clears the entries of queries, which a mat-vec may fill."""
        assert not vector.gated
        terms = [(c, self.pair(factors), form) for c, factors, form in vector.scaled]
        reads = [vector.linear, *(f for _, (a, b), v in terms for f in (a, b, v))]
        time = self.s.attention_time(reads)
        dirty = any(p.cell.dirty for form in reads for p in form)
        out = self.s.new(
            name, "data", self.outputs, time, variable=variable, dirty=dirty and not clean
        )
        if vector.linear:
            self.s.copy(out, vector.linear)
        for c, (a, b), v in terms:
            gadgets.broadcast(self.s, time, a, b, scaled(v, c), out, self.outputs, name)
        if dirty and clean:
            self.s.write(LinearWrite(time + 1, whole(out, -1.0), out, QUERY, f"clear {name}"))
        return out

    def by_mlp(self, vector: Vector, name: str, variable: str | None = None) -> Cell:
        """linear + Σ token·form, written at the supports alone, so that queries stay at 0."""
        forms = [vector.linear, *(f for _, t, v in vector.gated for f in (whole(t), v))]
        time = self.s.mlp_time(forms)
        out = self.s.new(name, "data", self.outputs, time, variable=variable)
        if vector.linear:
            gadgets.update(self.s, time, vector.linear, out, SUPPORT, name)
        for coefficient, token, form in vector.gated:
            for o in range(self.outputs):  # the token is positive at supports and 0 elsewhere
                value = scaled(piece(form, o, 1), coefficient)
                self.s.write(ProductWrite(time, whole(token), value, out, o, name))
        return out

    def predict(self, alpha: Vector, cell: Cell) -> Cell:
        """f = Kα. Where α grows by multiples of vectors v with known K v, so does f."""
        known = (
            alpha.scaled
            and not alpha.gated
            and all(form_key(v) in self.fits for _, _, v in alpha.scaled)
            and all(form_key((p,)) in self.fits for p in alpha.linear)
        )
        if not known:
            return self.matvec(whole(cell), "f", cell.variable)
        linear = tuple(
            Part(p.coefficient, self.fits[form_key((p,))], p.offset, p.width) for p in alpha.linear
        )
        grown = tuple((c, a, whole(self.fits[form_key(v)])) for c, a, v in alpha.scaled)
        fit = self.by_attention(Vector(linear, grown), "f", clean=False)
        self.fits[form_key(whole(cell))] = fit
        return fit

    def diagonal(self) -> Diagonal:
        """|φ_i|² = Σ_a relu(φ_a)·φ_a + relu(−φ_a)·(−φ_a): a product within a token."""
        if not self.gated:
            raise Refusal(
                "The Jacobi preconditioner needs |φ_i|², a product within a token, which linear "
                "attention sums over tokens and a plain ReLU MLP cannot form: use `products=Exact()`, or "
                "no preconditioner."
            )
        time = self.s.mlp_time([whole(self.phi)])
        out = self.s.new("diagonal", "data", 1, time)
        for a in range(self.features):
            entry = piece(whole(self.phi), a, 1)
            for sign in (1.0, -1.0):
                signed = scaled(entry, sign)
                self.s.write(ProductWrite(time, signed, signed, out, 0, "|φ|²"))
        return Diagonal(out)

    def invert_token(self, token: Diagonal, lo: float, hi: float) -> Cell:
        """1/(d + c) at every support: the table, then the correction of `Reciprocal`, in the MLP."""
        correction = reciprocal_table(lo, hi)
        s, table, c = self.s, correction.table, token.constant
        time = s.mlp_time([whole(token.cell)])
        z = s.new("1/d", "data", 1, time)
        d = whole(token.cell)
        gadgets.hinge_write(s, time, d, table, z, 0, SUPPORT, "1/d, first guess", shift=c)
        support = whole(self.s.support)
        e = self.gated_product(z, whole(token.cell, -1.0) + scaled(support, -c), support, "1 − d·z")
        z = self.gated_product(z, support + whole(e, correction.a), (), "1/d")
        square = s.new("e²", "data", 1, s.mlp_time([whole(e)]))
        for sign in (1.0, -1.0):
            s.write(ProductWrite(square.written, whole(e, sign), whole(e, sign), square, 0, "e²"))
        for b, quadratic in ((correction.b, correction.c), (correction.d, correction.f)):
            factor = support + whole(e, b) + whole(square, quadratic)
            z = self.gated_product(z, factor, (), "1/d")
        return z

    def gated_product(self, gate: Cell, value: Form, plus: Form, name: str) -> Cell:
        """plus + gate·value for a positive gate that is 0 outside the supports."""
        time = self.s.mlp_time([whole(gate), value, plus])
        out = self.s.new(name, "data", 1, time)
        self.s.write(ProductWrite(time, whole(gate), value, out, 0, name))
        if plus:
            gadgets.update(self.s, time, plus, out, SUPPORT, name)
        return out
