"""A loop over a polynomial in A: every pass renews it in the channels that hold its images of features.

Written out, a step X ← cX + … leaves the factor c to the unit in which the images are kept. Weights that are
used again know of no unit that changes; so attention adds what is to be added, divided by c, and the MLP of
the same block multiplies the sum by c. The iterate is not carried. The blocks after the loop form it from the
operator that the last pass leaves, or from that of an earlier step, if the stream of that step is put
through them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ridgeformer.compiler.backends.operator_values import Images, Operator
from ridgeformer.compiler.circuit import ALL, Circuit, Early, LinearWrite, Readout, whole
from ridgeformer.compiler.loop import Carried, Loop
from ridgeformer.program import LoopedProgram, ops
from ridgeformer.program.looped import Variable
from ridgeformer.program.ops import ancestors
from ridgeformer.types import Refusal

if TYPE_CHECKING:
    from ridgeformer.compiler.backends.operators import OperatorLowering


def looped_operators(lowering: OperatorLowering, program: LoopedProgram) -> Circuit:
    """The circuit of the loop: blocks before it, one block that is repeated, and those that predict."""
    s, variable = lowering.s, only_operator(program)
    assert isinstance(variable.start, ops.Channel)
    lowering.needed |= ancestors(program, variable.start)
    for op in program.ops[: program.before]:
        lowering.perform(op)
    begin = lowering.values[variable.start]
    if not isinstance(begin, Operator) or begin.terms or lowering.at_queries:
        raise not_repeatable(program, "begins with more than a multiple of I")

    before = lowering.first
    first = before.written // 2 + 1
    start = s.new("X", before.place, before.width, 2 * first - 1, variable=variable.name)
    lowering.values[variable.carried] = Operator(begin.coefficient, Images(start, None))
    carried = None
    for op in program.ops[program.before :]:
        if isinstance(op, ops.Carried):
            continue
        lowering.perform(op)
        if op.out == variable.end:
            value = lowering.values[op.out]
            assert isinstance(value, Operator)
            if value.cells is None or value.cells.context is not start:
                raise not_repeatable(program, "does not add to the operator that it finds")
            time = lowering.time_of_update(value)
            between = lowering.updated(start, value, op.out, time)
            factor = value.coefficient / begin.coefficient
            end, after = (
                s.new("X", before.place, before.width, time + 1, variable=variable.name)
                for _ in range(2)
            )
            s.write(LinearWrite(time + 1, whole(between, factor), end, ALL, variable.name))
            lowering.values[op.out] = Operator(begin.coefficient, Images(after, None))
            carried = Carried(before, start, end, after, between)
    assert carried is not None

    prediction = lowering.stored_iterate(program.alpha.end)
    stop = carried.end.written // 2 + 1
    early = Early(start, 1.0, 2 * stop)
    s.readouts = [
        Readout(1, variable.name, start, scale=begin.coefficient),
        Readout(1, None, prediction, scale=-1.0, early=early),
    ]
    circuit = s.circuit(lowering.raw, lowering.y, lowering.silence())
    return replace(circuit, loop=Loop(first, stop, (carried,)))


def only_operator(program: LoopedProgram) -> Variable:
    others = [v for v in program.variables if v is not program.alpha]
    if len(others) != 1 or others[0].carried.kind != "operator":
        raise not_repeatable(program, "carries more than one operator from pass to pass")
    return others[0]


def not_repeatable(program: LoopedProgram, what: str) -> Refusal:
    return Refusal(
        f"{program.solver} cannot be looped: it {what}, and a pass renews one polynomial in A in place; "
        "leave `looped=True` out."
    )
