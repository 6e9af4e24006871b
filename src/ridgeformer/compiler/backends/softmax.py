"""Softmax attention, prefix mask: kernels are attention weights, and every token does its own sums.

A head averages values with weights exp(logit)/Σ exp(logit). With the aggregator as a sink of logit 0
the kernel head reads, at token j,

    o_j = Σ_i K_ji v_i / D_j   and   w_j = 1/D_j,   D_j = 1 + Σ_i K_ji,

so that K v = D ⊙ o, and the sink's own weight is the reciprocal of D. A second head attends to all
context tokens alike and gives every token the same mean, hence the same scalars: nothing has to be
sent back from the aggregator, and products of scalars and vectors stay within the token.

The aggregator reads only itself in the kernel head, so that vectors are 0 there; a query's key is
pushed out of every head by a large negative logit, so that a query never reads itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ridgeformer.compiler.backends.arithmetic import Sum
from ridgeformer.compiler.backends.token_lowering import TokenLowering, times
from ridgeformer.compiler.circuit import (
    AGGREGATOR,
    SUPPORT,
    Cell,
    Circuit,
    Form,
    Output,
    Role,
    form_key,
    piece,
    ready,
    scaled,
    whole,
)
from ridgeformer.kernels import Logits
from ridgeformer.program import ops
from ridgeformer.program.ops import Channel, Kind, Op, Program
from ridgeformer.program.tables import unit_table
from ridgeformer.types import Refusal

CONTEXT = SUPPORT | AGGREGATOR


class RowSum:
    """D itself, until something asks for more than its reciprocal."""


@dataclass
class SoftmaxLowering(TokenLowering):
    logits: Logits | None = None
    """How the kernel is made; None where dot products come from pairs of heads."""
    row_sums: tuple[float, float] = (2.0, 2.0)
    """The range of D at the supports."""
    max_supports: int = 1
    push: float = 1024.0
    """A logit so large that the exponentials of all other logits vanish beside its own."""
    ratio_sites: bool = False
    """Whether f_t is read as o/w before the last step, so that only the last one is divided."""
    fits: dict[object, Cell] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place = "everywhere"
        super().__post_init__()
        self.once: dict[str, Cell] = {}
        """Cells that are computed once, from the data alone, by name."""
        self.last_step, self.smooths = 0, False
        self.scalar_tokens = CONTEXT

    # ------------------------------------------------------------------ the heads

    def average(
        self,
        role: Role,
        q: Sequence[Form],
        k: Sequence[Form],
        v: Form,
        name: str,
        variable: str | None = None,
    ) -> Cell:
        """Σ_i softmax_i(q·k_i) v_i at every token."""
        time = self.s.attention_time([*q, *k, v])
        out = self.s.new(name, "everywhere", v[0].width, time)
        written = [Output(v, out)]
        self.s.head(time, role, name, "everywhere", "data", q, k, written, variable=variable)
        return out

    def kernel_logits(self) -> tuple[list[Form], list[Form]]:
        """For reader j and key i:  s⟨u_j, u_i⟩ less n|u_j|² + n|u_i|², relative to the sink.

        The last two entries push a query's key down for all readers, and the aggregator's own key
        up for the aggregator. Where the kernel has norms, the logit s⟨u_j, u_i⟩ − n|u_i|² is larger
        than it should be by n|u_j|²; adding that to the sink's logit as well makes up for it.
        """
        assert self.logits is not None
        s, u = self.s, whole(self.phi)
        everyone, up = s.common(), s.constant(self.push)
        down, keys = whole(s.query, -self.push), scaled(u, self.logits.scale)
        if not self.logits.norm:
            return [u, everyone, up], [keys, down, s.constant()]
        n = whole(self.norm(self.logits.norm))
        return [u, everyone, n + up], [keys, scaled(n, -1.0) + down, s.constant()]

    def kernel_average(self, role: Role, v: Form, name: str, variable: str | None = None) -> Cell:
        """o = D⁻¹K v at supports and queries, 0 at the aggregator."""
        key = form_key(v)
        if key not in self.fits:
            q, k = self.kernel_logits()
            self.fits[key] = self.average(role, q, k, v, name, variable)
        return self.fits[key]

    def matvec(self, v: Form, name: str, variable: str | None, bound: tuple[float, float]) -> Sum:
        """K v = D ⊙ o; an average is no larger than what it averages."""
        o = self.kernel_average("matvec", v, name, variable)
        self.multiplier.know(o, *bound)
        return Sum(rows=whole(o))

    def mean(self, v: Form, name: str) -> Cell:
        """(Σ_i v_i)/(k + 1) at every token: equal weights for supports and aggregator."""
        keys = [whole(self.s.query, -self.push)]
        return self.average("mean", [self.s.common()], keys, v, name)

    # ------------------------------------------------------------------ computed once, kept

    def kept(self, name: str, make: Callable[[], Cell]) -> Cell:
        if name not in self.once:
            self.once[name] = make()
        return self.once[name]

    def norm(self, scale: float) -> Cell:
        """n|u|² at every token."""
        entries = [piece(whole(self.phi), a, 1) for a in range(self.features)]

        def make() -> Cell:
            return self.multiplier.sum_of_squares(self.s, scale, entries, "n|u|²")

        return self.kept("n", make)

    def inverse_row_sum(self) -> Cell:
        """w = 1/D: the weight that the sink gets."""

        def make() -> Cell:
            w = self.kernel_average("normaliser", self.s.constant(), "w")
            self.multiplier.know(w, 1 / self.row_sums[1], 1 / self.row_sums[0])
            self.multiplier.lasting(w)
            return w

        return self.kept("w", make)

    def row_sum(self, not_before: int = 0) -> Cell:
        """D = 1/w, at the queries and the aggregator too, where it may be as small as 1."""
        lo, hi = 1.0, self.row_sums[1]

        def make() -> Cell:
            w = self.inverse_row_sum()
            self.multiplier.know(w, 1 / hi, 1 / lo)
            out = self.reciprocal(whole(w), 1 / hi, 1 / lo, "D", not_before)
            self.multiplier.know(w, 1 / hi, 1 / self.row_sums[0])
            self.multiplier.know(out, lo, hi)  # up to round-off, which its range need not hold
            return out

        return self.kept("D", make)

    def count(self) -> Cell:
        """k + 1, from the weight of the aggregator when all weights are equal."""

        def make() -> Cell:
            share = whole(self.mean(self.s.constant(), "1/(k+1)"))
            return self.reciprocal(share, 1 / (self.max_supports + 1), 1.0, "k+1")

        return self.kept("k+1", make)

    # ------------------------------------------------------------------ within a token

    def store(
        self,
        value: Sum,
        name: str,
        variable: str | None = None,
        not_before: int = 0,
        fine: bool = False,
    ) -> Cell:
        """The value in channels of its own; its rows are multiplied by D."""
        if value.rows:
            rows = (1.0, (whole(self.row_sum(not_before)), value.rows))
            value = Sum(value.linear, (*value.products, rows))
        return super().store(value, name, variable, not_before, fine)

    # ------------------------------------------------------------------ the program

    def silence(self) -> float:
        return self.multiplier.gate

    def circuit(self, program: Program) -> Circuit:
        self.last_step, self.smooths = program.steps, program.smooths
        if program.normalised:
            # A query has a row sum too, for which no step length was chosen: an iterate of its own could
            # grow from step to step until it overflows. Written at the context alone, it stays at 0.
            self.vector_tokens = CONTEXT
        return super().circuit(program)

    def lower(self, op: Op) -> object:
        match op:
            case ops.Target():
                return Sum(whole(self.y))
            case ops.Diagonal():
                raise Refusal(
                    "The Jacobi preconditioner needs K_ii, which softmax attention never shows by "
                    'itself: use `precondition="row-sum"`, which it shows as its normaliser, or none.'
                )
            case ops.RowSums():
                return RowSum()
            case ops.MatVec(v=v):
                return self.matvec(self.form(v), f"K{v.as_factor}/D", v.variable, self.bounds[v])
            case ops.Dot(out=out, u=u, v=v):
                return self.dot(self.form(u), self.form(v), out.name)
            case ops.Clamp(x=x) if isinstance(self.values[x], RowSum):
                return RowSum()  # inside its bounds by the domain
            case ops.Invert(x=x) if isinstance(self.values[x], RowSum):
                return Sum(whole(self.inverse_row_sum()))
            case ops.Unit(x=x, lo=lo, hi=hi, power=power):
                return self.unit(x, lo, hi, power)
        return super().lower(op)

    def dot(self, u: Form, v: Form, name: str) -> Sum:
        """uᵀv: products within the tokens, then their mean everywhere, times the count.

        If u is ready before v, it is multiplied by the count while v is still being computed.
        """
        count, first, second = whole(self.count()), *sorted((u, v), key=lambda f: ready([f]))
        early = self.s.mlp_time([count, first]) <= ready([second])
        left = self.product(count, first) if early else first
        terms = whole(
            self.multiplier.store(self.s, self.outputs, (), [(1.0, left, second)], "terms")
        )
        if early:
            return Sum(whole(self.mean(terms, name)))
        return Sum((), ((1.0, (count, whole(self.mean(terms, f"mean {name}")))),))

    def unit(self, x: Channel, lo: float, hi: float, power: float) -> Sum:
        """About x^(−power). For a count times a mean, it is the product of both powers.

        It is not written at queries, whose residuals do not vanish and would grow with every change
        of unit.
        """
        value, count = self.value(x), self.once.get("k+1")
        if value.factors is None or count is None or whole(count) not in value.factors[1]:
            table = unit_table(lo, hi, power)
            return Sum(whole(self.table(self.form(x), table, "c", tokens=CONTEXT)))
        most = self.max_supports + 1.0
        (mean,) = (factor for factor in value.factors[1] if factor != whole(count))
        table = unit_table(1.0, most, power)
        name = "c of k+1" if power == 0.5 else f"(k+1)^(−{power:g})"
        root = self.kept(name, lambda: self.table(whole(count), table, name))
        other = self.table(mean, unit_table(lo / most, hi, power), "c", tokens=CONTEXT)
        return Sum((), ((1.0, (whole(other), whole(root))),))

    def multiply(self, a: Channel, b: Channel) -> Sum:
        (coefficient, factors), value = self.factors(a), self.value(b)
        if value.rows and factors == (whole(self.once.get("w", self.phi)),):
            # w ⊙ (D ⊙ o) = o: what attention divided by is never multiplied back
            rest = times((coefficient, factors), value)
            return Sum(scaled(value.rows, coefficient), rest.products)
        if value.rows or (a.kind == "token" and value.products):
            # P⁻¹r must be computed from r itself: from its parts, it would have another round-off.
            value = Sum(self.form(b))
        return times((coefficient, factors), value)

    def cell(self, kind: Kind, name: str, written: int) -> Cell:
        return self.s.new(name, "everywhere", self.outputs, written, variable=name)

    def adopt(self, channel: Channel, cell: Cell) -> None:
        self.values[channel] = Sum(whole(cell))

    def settle(self, channel: Channel, name: str) -> Cell:
        cell = self.store(self.value(channel), name, name)
        self.values[channel] = Sum(whole(cell))
        return cell

    def known_range(self, channel: Channel) -> tuple[float, float]:
        return self.bounds[channel]

    def fit(self, alpha: Cell, bound: tuple[float, float]) -> Cell:
        return self.store(self.matvec(whole(alpha), "f/D", alpha.variable, bound), "f")

    def predict(self, alpha: Cell, step: int, bound: tuple[float, float]) -> None:
        """f = K α at the queries."""
        if self.smooths:
            self.read(step, None, self.smooth(whole(alpha)))
            return
        if not self.ratio_sites:
            self.read(step, None, self.fit(alpha, bound))
            return
        value = self.matvec(whole(alpha), "f/D", alpha.variable, bound)
        o, w = value.rows[0].cell, self.inverse_row_sum()
        if step < self.last_step:
            self.s.kept.add(w)
            self.read(step, None, o, over=w)
            return
        # The last division may take several layers; it starts when everything else is done.
        cell = self.store(value, "f", not_before=o.written + 1, fine=True)
        self.read(step, None, cell)

    def smooth(self, v: Form) -> Cell:
        """Σ k_i v_i / Σ k_i at the queries: the same head with the sink pushed out as well."""
        q, k = self.kernel_logits()
        q, k = q[:-1], [*k[:-2], k[-2] + self.s.constant(-self.push)]
        return self.average("prediction", q, k, v, "f")
