"""Linear attention, causal mask, no aggregator: every token solves the system of its own prefix.

The tokens are x₁, (x₁, y₁), x₂, (x₂, y₂), …, and then the queries. The token at position i holds whole
vectors of p channels, and sees the pairs before it: with Φ_i and y_i for those, it solves

    (Φ_iᵀΦ_i + λI) w = Φ_iᵀ y_i

by the recurrence of feature space. A head brings it Φ_iᵀΦ_i v for its own v, and everything else is
arithmetic within the token, which a gated MLP does exactly. What tokens read from each other, φ and y,
never changes, so no error of one prefix reaches another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from ridgeformer.compiler.backends import gadgets
from ridgeformer.compiler.backends.arithmetic import Sum
from ridgeformer.compiler.backends.feature_space import no_diagonal
from ridgeformer.compiler.backends.linear_attention import LinearBackend, largest_value
from ridgeformer.compiler.backends.token_lowering import TokenLowering
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.circuit import (
    SUPPORT,
    Cell,
    Circuit,
    Form,
    Output,
    ProductWrite,
    Role,
    piece,
    scaled,
    whole,
)
from ridgeformer.program import Program, Scope, ops
from ridgeformer.program.ops import Op
from ridgeformer.program.ranges import Bounds


class EveryPrefixBackend(LinearBackend):
    @property
    def scope(self) -> Scope:
        return Scope(predictions=False)  # a token has no heads in which they would save a layer

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        largest_value(program, bounds, self.job.dtype)  # refuses what leaves the range of the dtype
        lowering = EveryPrefixLowering(
            outputs=self.job.outputs,
            features=self.projected_features,
            feature_map=self.feature_map,
            bounds=bounds,
        )
        return lowering.circuit(program)

    def certify(self, program: Program) -> Certificate:
        return replace(super().certify(program), every_prefix=True)


@dataclass
class EveryPrefixLowering(TokenLowering):
    """A vector has `features` channels for each output, one output after the other."""

    def __post_init__(self) -> None:
        self.place = "everywhere"
        super().__post_init__()

    @cached_property
    def key(self) -> Cell:
        """φ at the pairs, and 0 at an x, which has the same φ and must not be counted twice."""
        time = self.s.mlp_time([whole(self.phi)])
        out = self.s.new("φ of pairs", "everywhere", self.features, time)
        gadgets.update(self.s, time, whole(self.phi), out, SUPPORT, out.name)
        return out

    def of_output(self, form: Form, output: int) -> Form:
        """The channels of one output."""
        return piece(form, output, self.features)

    # ------------------------------------------------------------------ the heads

    def summed(
        self,
        role: Role,
        name: str,
        q: Callable[[int], Form],
        k: Callable[[int], Form],
        variable: str | None = None,
    ) -> Cell:
        """Σ_j (q·k_j) φ_j over the tokens up to one's own, for each output its own q and k."""
        phi, outputs = whole(self.phi), range(self.outputs)
        time = self.s.attention_time([phi, *map(q, outputs), *map(k, outputs)])
        out = self.s.new(name, "everywhere", self.features * self.outputs, time)
        for o in outputs:
            written = [Output(phi, out, o * self.features)]
            self.s.head(
                time, role, name, "everywhere", "data", [q(o)], [k(o)], written, variable=variable
            )
        return out

    def target(self) -> Cell:
        """Φᵀy: q = 1, k_j = y_j, which is 0 at an x."""
        return self.summed(
            "target", "Φᵀy", lambda o: self.s.common(), lambda o: piece(whole(self.y), o, 1)
        )

    def matvec(self, v: Form, name: str, variable: str | None) -> Cell:
        """ΦᵀΦ v: q = v, k_j = φ_j at the pairs."""
        keys = whole(self.key)
        return self.summed("matvec", name, lambda o: self.of_output(v, o), lambda o: keys, variable)

    # ------------------------------------------------------------------ within a token

    def inner(self, u: Callable[[int], Form], v: Callable[[int], Form], name: str) -> Cell:
        """Σ_a u_a·v_a for each output: x·y = relu(x)·y − relu(−x)·y, two neurons for each entry."""
        outputs = range(self.outputs)
        time = self.s.mlp_time([*map(u, outputs), *map(v, outputs)])
        out = self.s.new(name, "everywhere", self.outputs, time)
        for o in outputs:
            for a in range(self.features):
                for sign in (1.0, -1.0):
                    gate, value = (scaled(piece(x(o), a, 1), sign) for x in (u, v))
                    self.s.write(ProductWrite(time, gate, value, out, o, name))
        return out

    def lower(self, op: Op) -> object:
        match op:
            case ops.Target():
                return Sum(whole(self.target()))
            case ops.Diagonal():
                raise no_diagonal()
            case ops.MatVec(v=v):
                return Sum(whole(self.matvec(self.form(v), f"K{v.as_factor}", v.variable)))
            case ops.Dot(out=out, u=u, v=v):
                left, right = self.form(u), self.form(v)
                cell = self.inner(
                    lambda o: self.of_output(left, o), lambda o: self.of_output(right, o), out.name
                )
                return Sum(whole(cell))
        return super().lower(op)

    def predict(self, alpha: Cell, step: int, bound: tuple[float, float]) -> None:
        """f = φ·w, at every token."""
        phi, w = whole(self.phi), whole(alpha)
        f = self.inner(lambda o: phi, lambda o: self.of_output(w, o), "f")
        self.read(step, None, f)
