"""How large the channels of a program can become.

Scalars get intervals, vectors and operators get norms. What follows from arithmetic is inferred here; what
needs a theorem (clamps, norms of the iterates) was stated by the solver, and stops the bounds from
growing with the number of steps.
"""

from __future__ import annotations

from math import inf, prod

from ridgeformer.program import ops
from ridgeformer.program.looped import LoopedProgram, Variable
from ridgeformer.program.ops import Channel, Op, Program, inputs
from ridgeformer.program.tables import LEAST_RATIO, unit_table
from ridgeformer.types import Refusal

Range = tuple[float, float]
Bounds = dict[Channel, Range]


def ranges(program: Program) -> Bounds:
    """An interval for each scalar and token, and (−n, n) for a vector or operator of norm at most n."""
    if isinstance(program, LoopedProgram):
        return ranges_of_loop(program)
    return inferred(program, {})


def inferred(program: Program, carried: Bounds) -> Bounds:
    """The ranges that follow from those of the carried channels."""
    bounds: Bounds = {}
    for op in program.ops:
        low, high = carried[op.out] if op.out in carried else infer(op, bounds, program)
        if op.out in program.norms:
            norm = program.norms[op.out]
            low, high = max(low, -norm), min(high, norm)
        bounds[op.out] = (low, high)
    return bounds


def ranges_of_loop(program: LoopedProgram) -> Bounds:
    """Ranges that hold in every pass.

    At first nothing is known of what a pass finds. Whatever follows for what it leaves holds together
    with the start for what the next pass finds; so each round is true, and knows more than the last.
    Variables that only take each other's places are left over. They stay within their starts if a pass
    that finds them there leaves them there.
    """
    carried: Bounds = {v.carried: (-inf, inf) for v in program.variables}
    for _ in program.variables:
        carried = after_pass(program, carried)
    bounded = {c: interval for c, interval in carried.items() if inf not in map(abs, interval)}
    starts = inferred(program, carried)
    found = {v.carried: start_range(v, starts) for v in program.variables} | bounded
    for _ in program.variables:
        found = after_pass(program, found) | bounded
    later = after_pass(program, found) | bounded
    for variable in program.variables:
        if later[variable.carried] != found[variable.carried]:
            raise Refusal(
                f"{program.solver} cannot be looped: nothing bounds {variable.name} over the steps; "
                "state a bound with m.bound."
            )
    return inferred(program, found)


def after_pass(program: LoopedProgram, carried: Bounds) -> Bounds:
    """What a pass may find if the one before it found this: its start, or what that one leaves."""
    bounds = inferred(program, carried)
    return {v.carried: hull(start_range(v, bounds), bounds[v.end]) for v in program.variables}


def start_range(variable: Variable, bounds: Bounds) -> Range:
    if isinstance(variable.start, float):
        return variable.start, variable.start
    return bounds[variable.start]


def hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def largest(program: Program, bounds: Bounds) -> float:
    """A bound on the absolute value of every channel that is more than a factor of a product.

    Factors are multiplied three at a time in an order of the compiler's choosing, so a partial
    product may exceed its factors, but by no more than the spread of the clamps: 2¹⁰ is room enough.
    """
    used = {
        channel for op in program.ops if not isinstance(op, ops.Multiply) for channel in inputs(op)
    }
    used.update(c for state in program.states for c in state.values() if c is not None)
    return 2.0**10 * max(
        max(-low, high) for channel, (low, high) in bounds.items() if channel in used
    )


def largest_factor(program: Program, bounds: Bounds) -> float:
    """A bound on the units and reciprocals, each with what its table and its correction hold on the way."""
    tables = (ops.Unit, ops.Invert, ops.InvertNear)
    return 2.0 * max(
        (bounds[op.out][1] for op in program.ops if isinstance(op, tables)), default=0.0
    )


def largest_vector(program: Program, bounds: Bounds) -> float:
    """A bound on the norm of whatever is multiplied by K."""
    sources = [op.v for op in program.ops if isinstance(op, ops.MatVec)]
    sources += [state["alpha"] for state in program.states if state["alpha"] is not None]
    return max(bounds[channel][1] for channel in sources)


def infer(op: Op, bounds: Bounds, program: Program) -> Range:
    match op:
        case ops.Target():
            return -program.target_norm[1], program.target_norm[1]
        case ops.Diagonal():
            return 0.0, program.max_eigenvalue
        case ops.RowSums():
            assert program.normaliser is not None
            return program.normaliser
        case ops.MatVec(v=v):
            return scale(bounds[v], program.max_eigenvalue)
        case ops.Dot(u=u, v=v):
            most = times(max(map(abs, bounds[u])), max(map(abs, bounds[v])))
            return (0.0 if u == v else -most), most
        case ops.Combine(terms=terms, constant=constant):
            parts = [scale(bounds[channel], c) for c, channel in terms]
            return constant + sum(lo for lo, _ in parts), constant + sum(hi for _, hi in parts)
        case ops.Multiply(a=a, b=b):
            corners = [times(x, y) for x in bounds[a] for y in bounds[b]]
            return min(corners), max(corners)
        case ops.Clamp(lo=lo, hi=hi):
            return lo, hi
        case ops.Invert(lo=lo, hi=hi):
            return 1 / hi, 1 / lo
        case ops.InvertNear(lo=lo):
            return 0.0, 2 / (LEAST_RATIO * lo)
        case ops.Unit(lo=lo, hi=hi, power=power):
            table = unit_table(lo, hi, power)
            return table.constant, 2 * lo**-power
        case ops.Hold(x=x):
            return 0.0, max(0.0, bounds[x][1])
        case ops.Identity():
            return -1.0, 1.0
        case ops.Product() | ops.Apply():
            largest = program.ridge + program.max_eigenvalue if isinstance(op, ops.Product) else 1.0
            norm = largest * prod(bounds[channel][1] for channel in inputs(op))
            return -norm, norm
        case ops.Carried():
            raise AssertionError("what a loop carries is known before its pass")


def times(x: float, y: float) -> float:
    """x·y, where 0 times anything is 0."""
    return 0.0 if x == 0.0 or y == 0.0 else x * y


def scale(interval: Range, factor: float) -> Range:
    ends = (factor * interval[0], factor * interval[1])
    return min(ends), max(ends)
