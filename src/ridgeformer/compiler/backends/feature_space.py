"""Linear attention, causal mask: the same recurrence in feature space, at the aggregator.

A support cannot see later supports, so it cannot hold an entry of the dual iteration. The
aggregator comes after them all: it solves (ΦᵀΦ + λI) w = Φᵀy with whole vectors of p channels, and
the supports only provide their φ and y. The iterates of an adaptive solver differ from those of the
dual system.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.compiler.backends import gadgets
from ridgeformer.compiler.backends.factors import Diagonal, FactorLowering, Vector
from ridgeformer.compiler.circuit import AGGREGATOR, Cell, Form, Output, piece, scaled, whole
from ridgeformer.program.ops import Kind
from ridgeformer.types import Refusal


@dataclass
class FeatureLowering(FactorLowering):
    def cell(self, kind: Kind, name: str, written: int) -> Cell:
        width = self.features * self.outputs if kind == "vector" else self.outputs
        return self.s.new(name, "aggregator", width, written, variable=name)

    def target(self) -> Form:
        """Φᵀy at the aggregator: q = 1, k_i = y_i, v_i = φ_i."""
        phi, y = whole(self.phi), whole(self.y)
        time = self.s.attention_time([phi, y])
        out = self.s.new("Φᵀy", "aggregator", self.features * self.outputs, time)
        for o in range(self.outputs):
            written = [Output(phi, out, o * self.features)]
            self.s.head(
                time, "target", "Φᵀy", "aggregator", "data", [self.s.constant()], [piece(y, o, 1)],
                written,
            )  # fmt: skip
        return whole(out)

    def matvec(self, v: Form, name: str, variable: str | None) -> Cell:
        """Lemma A in feature space: q = v, k_i = φ_i, v_i = φ_i gives Σ_i φ_i (φ_i·v) = ΦᵀΦ v."""
        phi = whole(self.phi)
        time = self.s.attention_time([phi, v])
        out = self.s.new(name, "aggregator", self.features * self.outputs, time)
        for o in range(self.outputs):
            written = [Output(phi, out, o * self.features)]
            self.s.head(
                time, "matvec", name, "aggregator", "data", [self.slice(v, o)], [phi], written,
                variable=variable,
            )  # fmt: skip
        return out

    def dot(self, u: Form, v: Form, scale: Form | None, name: str) -> Cell:
        """Lemma B: the aggregator attends to itself, q = u, k = v, value = the scale or 1."""
        time = self.s.attention_time([u, v, scale or self.s.constant()])
        out = self.s.new(name, "aggregator", self.outputs, time)
        for o in range(self.outputs):
            value = piece(scale, o, 1) if scale else self.s.constant()
            q, k, written = [self.slice(u, o)], [self.slice(v, o)], [Output(value, out, o)]
            self.s.head(time, "reduction", name, "aggregator", "aggregator", q, k, written)
        return out

    def store(self, vector: Vector, name: str, variable: str | None = None) -> Cell:
        """A head scales: q = a, k = b, value = v gives a·b·v. Without scalars the MLP adds up."""
        assert not vector.gated
        width = self.features * self.outputs
        if not vector.scaled:
            time = self.s.mlp_time([vector.linear])
            out = self.s.new(name, "aggregator", width, time, variable=variable)
            gadgets.update(self.s, time, vector.linear, out, AGGREGATOR, name)
            return out
        terms = [(c, self.pair(factors), form) for c, factors, form in vector.scaled]
        time = self.s.attention_time(
            [vector.linear, *(f for _, (a, b), v in terms for f in (a, b, v))]
        )
        if len(terms) == 1 and not vector.linear and not self.looped:
            # A mere change of unit waits a layer, until the old direction's p channels are free; in a
            # loop the next pass would have to wait with it.
            time += 2
        out = self.s.new(name, "aggregator", width, time, variable=variable)
        if vector.linear:
            self.s.copy(out, vector.linear)
        for c, (a, b), v in terms:
            for o in range(self.outputs):
                left, right = gadgets.spread(a, o), gadgets.spread(b, o)
                written = [Output(scaled(self.slice(v, o), c), out, o * self.features)]
                self.s.head(
                    time, "broadcast", name, "aggregator", "aggregator", [left], [right], written
                )
        return out

    def predict(self, alpha: Vector, cell: Cell) -> Cell:
        """φ(x)·w at the queries: q = φ, k = w, value = 1; the supports cannot see the aggregator."""
        phi, w = whole(self.phi), whole(cell)
        time = self.s.attention_time([phi, w])
        out = self.s.new("f", "data", self.outputs, time)
        for o in range(self.outputs):
            written = [Output(self.s.constant(), out, o)]
            self.s.head(
                time, "prediction", "f", "data", "aggregator", [phi], [self.slice(w, o)], written
            )
        return out

    def slice(self, form: Form, output: int) -> Form:
        """The p channels of one output."""
        return piece(form, output, self.features)

    def diagonal(self) -> Diagonal:
        raise no_diagonal()

    def invert_token(self, token: Diagonal, lo: float, hi: float) -> Cell:
        raise AssertionError("a diagonal is refused before it is inverted")


def no_diagonal() -> Refusal:
    return Refusal(
        "The Jacobi preconditioner is not available in feature space: use no preconditioner with "
        "`causal=True`, or leave that out and use `products=Exact()`."
    )
