"""Linear attention, prefix mask: polynomials in A = ΦᵀΦ + λI, one layer for a product.

Every context token j holds the image X x_j of its features under each operator X. Registers, which are
constant tokens with features √λ·e_i and target 0, add λI to ΦᵀΦ exactly: over supports and registers
together Σ_i x_i x_iᵀ = A. A head with the query Q x_j, the key K x_i and the value V x_i therefore gives

    Σ_i V x_i ⟨K x_i, Q x_j⟩ = V A K Q x_j,

because polynomials in A are symmetric and commute. A vector α is never stored. What a token holds of it
is ρ_j = y_j − x_jᵀΦᵀα, where y_j is 0 at registers and queries; at a query it is minus the prediction.
Since Σ_i ρ_i x_i = Φᵀ(y − Aα), the head with the value ρ_i gives x_jᵀ·KQ·Φᵀ(y − Aα), and ρ_j falls by
this when KQ(y − Aα) is added to α.

A query reads itself, too, so whatever serves as a key must be 0 there. The first layer clears a copy of
the features at the queries, and images grow out of that copy. Where a head needs an operator's image at
the queries themselves, a second copy, which is not cleared, is kept in step with the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, log2, sqrt

import numpy as np

from ridgeformer.compiler.backends.looped_operators import looped_operators
from ridgeformer.compiler.backends.lowering import Lowering
from ridgeformer.compiler.backends.operator_values import (
    Image,
    Images,
    Iterate,
    Operator,
    Residual,
    Value,
)
from ridgeformer.compiler.circuit import (
    START,
    SUPPORT,
    Cell,
    Circuit,
    Early,
    Form,
    LinearWrite,
    Output,
    Place,
    Readout,
    scaled,
    whole,
)
from ridgeformer.program import LoopedProgram, ops
from ridgeformer.program.ops import Channel, Op, Program, ancestors, inputs
from ridgeformer.types import Refusal

LARGEST_UNIT = 1e30
"""Beyond this many doublings nothing is left to improve."""


@dataclass
class OperatorLowering(Lowering):
    place: Place = "everywhere"
    ridge: float = 1.0
    values: dict[Channel, Value] = field(default_factory=dict)

    def circuit(self, program: Program) -> Circuit:
        self.prepare(program)
        if isinstance(program, LoopedProgram):
            built = looped_operators(self, program)
        else:
            built = super().circuit(program)
        rows = sqrt(self.ridge) * np.eye(self.features)
        return replace(
            built,
            registers={self.phi: rows, self.copy: rows},
            repeated=(self.copy,) if self.phi is self.raw else (),
        )

    def prepare(self, program: Program) -> None:
        """What every program of this kind begins with: the images under I, 0 at the queries."""
        self.program = program
        self.needed = ancestors(program, program.states[-1]["alpha"])
        """What the last iterate depends on; iterates that it does not depend on are early exits."""
        self.at_queries = any(
            isinstance(op, ops.Apply) and op.key is not None for op in program.ops
        )
        """Whether images are needed at the queries."""
        self.first = self.copied_features()
        self.identity = Operator(1.0, Images(self.first, self.phi))

    def run(self, program: Program) -> None:
        super().run(program)
        for step in range(1, program.steps):
            if program.states[step]["alpha"] not in self.needed:
                self.s.readouts.append(self.early_exit(step))

    def silence(self) -> float:
        """Larger than the features of a register."""
        return float(2.0 ** ceil(log2(2 * max(1.0, sqrt(self.ridge)))))

    def copied_features(self) -> Cell:
        """A second copy of the features, 0 at the queries."""
        if self.at_queries:
            self.s.kept.discard(self.phi)  # images at the queries continue in its channels
        if (
            self.phi is not self.raw
        ):  # an MLP writes features of a feature map where they are wanted
            time = self.s.mlp_time([whole(self.phi)])
            self.copy = self.s.new("X", "everywhere", self.features, time)
            self.s.write(LinearWrite(time, whole(self.phi), self.copy, SUPPORT, "X"))
            return self.copy
        self.copy = self.s.new("X", "everywhere", self.features, START)
        query, time = whole(self.s.query), self.s.attention_time([whole(self.copy)])
        cleared = self.s.new("X", "everywhere", self.features, time)
        self.s.copy(cleared, whole(self.copy))
        written = [Output(whole(self.copy, -1.0), cleared)]
        self.s.head(
            time, "copy", "clear the queries", "everywhere", "everywhere", [query], [query], written
        )
        return cleared

    def perform(self, op: Op) -> None:
        if op.out in self.needed:
            self.values[op.out] = self.lower(op)

    def lower(self, op: Op) -> Value:
        match op:
            case ops.Target():
                return Residual(None)
            case ops.Identity():
                return self.identity
            case ops.Product(left=left, right=right, key=key):
                factors = (self.stored(left), self.stored(key), self.stored(right))
                return Operator(0.0, None, ((1.0, *factors),))
            case ops.Apply(operator=operator, v=v, key=key):
                # What reads at the queries is I where it can be, whose image is there anyway.
                first, second = self.stored(operator), self.stored(key)
                return Iterate(self.y, ((1.0, self.residual(v), first, second),))
            case ops.MatVec(v=v):
                return Image(v)
            case ops.Combine(terms=terms, constant=0.0) if op.out.kind == "operator":
                return self.sum_of_operators(op.out, terms)
            case ops.Combine(terms=terms, constant=0.0) if op.out.kind == "vector":
                return self.sum_of_vectors(terms)
        raise Refusal(
            f"{self.program.solver} cannot be compiled: beside polynomials in A it has {op.out}, which "
            "is neither one of them nor a vector that they are applied to."
        )

    def sum_of_operators(self, out: Channel, terms: tuple[tuple[float, Channel], ...]) -> Operator:
        """A multiple of one stored operator, plus products."""
        total = Operator(0.0, None)
        for c, channel in terms:
            value = self.values[channel]
            assert isinstance(value, Operator)
            if value.cells is not None and total.cells not in (None, value.cells):
                raise Refusal(
                    f"{self.program.solver} cannot be compiled: {out} is not a multiple of one operator "
                    "plus products."
                )
            products = tuple((c * d, left, key, right) for d, left, key, right in value.terms)
            total = Operator(
                total.coefficient + c * value.coefficient,
                total.cells or value.cells,
                total.terms + products,
            )
        return total

    def sum_of_vectors(self, terms: tuple[tuple[float, Channel], ...]) -> Iterate | Residual:
        """α + Σ c·β with β = KQ(y − Aα'), or y − Kα − λα."""
        seen = [(c, channel, self.values[channel]) for c, channel in terms]
        images = [(c, value.of) for c, _, value in seen if isinstance(value, Image)]
        if images:
            (c, of), *others = images
            rest = {channel: c for c, channel, value in seen if not isinstance(value, Image)}
            target = [v for v in rest if self.values[v] == Residual(None)]
            balanced = {v: c for v, c in rest.items() if v not in target} == {of: -self.ridge}
            if others or c != -1.0 or [rest[v] for v in target] != [1.0] or not balanced:
                raise self.not_a_residual()
            return Residual(of)
        iterates = [(c, value) for c, _, value in seen if isinstance(value, Iterate)]
        bases = [(c, value.base) for c, value in iterates if value.base is not self.y]
        if len(iterates) < len(seen) or len(bases) > 1 or any(c != 1.0 for c, _ in bases):
            raise self.not_a_residual()
        added = tuple(
            (c * d, rho, key, query) for c, value in iterates for d, rho, key, query in value.terms
        )
        return Iterate(bases[0][1] if bases else self.y, added)

    def not_a_residual(self) -> Refusal:
        return Refusal(
            f"{self.program.solver} cannot be compiled: a method with polynomials in A adds to its "
            "iterate what they make of residuals y − Aα, and nothing else."
        )

    def stored(self, channel: Channel | None) -> Operator:
        """An operator that heads can read; I without a channel."""
        if channel is None:
            return self.identity
        value = self.values[channel]
        assert isinstance(value, Operator)
        if value.terms:
            value = self.values[channel] = self.store(value, channel)
        return value

    def store(self, value: Operator, channel: Channel) -> Operator:
        """X = g·(its cells): in units of g an update begins with the old cells, as they are."""
        if value.cells is None or value.coefficient == 0.0:
            raise Refusal(
                f"{self.program.solver} cannot be compiled: {channel} is a product of operators without "
                "a multiple of one of them, and attention adds to what is there."
            )
        old, unit = value.cells, value.coefficient
        if abs(unit) > LARGEST_UNIT:
            raise Refusal(
                f"{self.program.solver} doubles the unit of its state in every step, and after so many "
                "steps a weight would overflow: use fewer `steps`."
            )
        time = self.time_of_update(value)
        context = self.updated(old.context, value, channel, time)
        everywhere = None
        if self.at_queries and old.everywhere is not None:
            everywhere = self.updated(old.everywhere, value, channel, time, at_queries=True)
        return Operator(unit, Images(context, everywhere))

    def updated(
        self, before: Cell, value: Operator, channel: Channel, time: int, at_queries: bool = False
    ) -> Cell:
        """What was in the cell, and the products of the value in units of its coefficient."""
        out = self.s.new(channel.name, "everywhere", self.features, time, variable=channel.variable)
        self.s.copy(out, whole(before))
        for c, left, key, right in value.terms:
            query = self.everywhere(right) if at_queries else self.context(right)
            # The value is 0 at the queries, so the features themselves may be the key of I.
            plain = key is self.identity and not self.at_queries
            by = self.everywhere(key) if plain else self.context(key)
            written = [Output(scaled(self.context(left), c / value.coefficient), out)]
            self.s.head(
                time, "operator", channel.name, "everywhere", "everywhere", [query],
                [by], written,
            )  # fmt: skip
        return out

    def time_of_update(self, value: Operator) -> int:
        """The first attention that can add the products of a value to what is stored of it."""
        assert value.cells is not None
        reads = [form for _, *factors in value.terms for f in factors for form in self.forms(f)]
        return self.s.attention_time([whole(value.cells.context), *reads])

    def forms(self, operator: Operator) -> list[Form]:
        assert operator.cells is not None
        cells = (operator.cells.context, operator.cells.everywhere if self.at_queries else None)
        return [whole(cell, operator.coefficient) for cell in cells if cell is not None]

    def context(self, operator: Operator) -> Form:
        assert operator.cells is not None
        return whole(operator.cells.context, operator.coefficient)

    def everywhere(self, operator: Operator) -> Form:
        assert operator.cells is not None
        assert operator.cells.everywhere is not None
        return whole(operator.cells.everywhere, operator.coefficient)

    def residual(self, channel: Channel) -> Cell:
        """The cell with the ρ of the vector whose residual the channel is."""
        value = self.values[channel]
        if not isinstance(value, Residual):
            raise self.not_a_residual()
        return self.y if value.of is None else self.stored_iterate(value.of)

    def stored_iterate(self, channel: Channel) -> Cell:
        value = self.values[channel]
        assert isinstance(value, Iterate)
        if not value.terms:
            return value.base
        parts = [
            (c, rho, self.context(key), self.everywhere(query))
            for c, rho, key, query in value.terms
        ]
        forms = [form for _, rho, key, query in parts for form in (whole(rho), key, query)]
        time = self.s.attention_time([whole(value.base), *forms])
        out = self.s.new("y − f", "everywhere", self.outputs, time, variable="y")
        self.s.copy(out, whole(value.base))
        for c, rho, key, query in parts:
            written = [Output(whole(rho, -c), out)]
            self.s.head(
                time, "prediction", "f", "everywhere", "everywhere", [query], [key], written
            )
        self.values[channel] = Iterate(out)
        return out

    def keep(self, channel: Channel, step: int, variable: str) -> None:
        if channel not in self.needed:
            return
        if isinstance(self.values[channel], Operator):
            operator = self.stored(channel)
            assert operator.cells is not None
            cell = operator.cells.context
            self.s.readouts.append(Readout(step, variable, cell, scale=operator.coefficient))
            return
        cell = self.stored_iterate(channel)
        self.s.readouts.append(Readout(step, None, cell, scale=-1.0))

    def early_exit(self, step: int) -> Readout:
        """The prediction of a step whose iterate no later step reads.

        The last blocks make the last iterate of the last operator. From the operator of an earlier
        step, which lies in the same channels, they make the iterate of that step.
        """
        last = self.program.steps
        if self.recipe(step) != self.recipe(last):
            raise Refusal(
                f"{self.program.solver} cannot be compiled: its iterate of step {step} is formed in "
                f"another way than that of step {last}."
            )
        then, now = (self.stored(operator_in(self.program, t)) for t in (last, step))
        assert now.cells is not None
        final = next(r.cell for r in self.s.readouts if r.step == last and r.variable is None)
        resume = min(head.time for head in self.s.heads if head.role == "prediction")
        early = Early(now.cells.context, now.coefficient / then.coefficient, resume)
        return Readout(step, None, final, scale=-1.0, early=early)

    def recipe(self, step: int) -> object:
        """How the iterate of a step is formed from the operator of that step."""
        by_channel = {op.out: op for op in self.program.ops}
        operator = operator_in(self.program, step)

        def formed(channel: Channel) -> object:
            if channel == operator:
                return "operator"
            op = by_channel[channel]
            coefficients = [c for c, _ in op.terms] if isinstance(op, ops.Combine) else []
            return type(op).__name__, tuple(coefficients), tuple(map(formed, inputs(op)))

        alpha = self.program.states[step]["alpha"]
        assert alpha is not None
        return formed(alpha)


def operator_in(program: Program, step: int) -> Channel:
    channels = [c for c in program.states[step].values() if c is not None and c.kind == "operator"]
    if len(channels) != 1:
        raise Refusal(
            f"{program.solver} cannot be compiled: no later step reads its iterate of step {step}, and "
            f"it has {len(channels)} operators instead of one from which the iterate could be formed."
        )
    return channels[0]
