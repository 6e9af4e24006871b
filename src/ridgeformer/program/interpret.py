"""What a program means: its operations carried out one by one on tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.program import ops
from ridgeformer.program.looped import LoopedProgram, Variable
from ridgeformer.program.ops import Channel, Op, Program
from ridgeformer.program.tables import LEAST_RATIO, unit_table
from ridgeformer.solvers import EagerMachine
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, Trajectory

Values = dict[Channel, Tensor]


def interpret(
    program: Program,
    prompt: Prompt,
    kernel: Kernel | None = None,
    check: bool = False,
    steps: int | None = None,
) -> Trajectory:
    """The program's predictions after each step. `check=True` refuses a stated bound that fails.

    A program with a loop makes as many passes as `steps` says.
    """
    machine = EagerMachine(prompt, kernel or DEFAULT_KERNEL, program.ridge)

    def carry_out(operations: Iterable[Op], known: Values) -> Values:
        values = dict(known)
        for op in operations:
            values[op.out] = evaluate(op, values, machine)
            if check and isinstance(op, ops.Clamp):
                check_bounds(op, values[op.x])
        return values

    if isinstance(program, LoopedProgram):
        once = carry_out(program.ops[: program.before], {})
        found = {v.carried: start(v, once, machine) for v in program.variables}
        asked = steps_within(program, steps)
        alphas = [machine.zeros()] * program.steps_before + [found[program.alpha.carried]]
        for _ in range(program.steps_before, asked):
            values = carry_out(program.ops[program.before :], once | found)
            found = {v.carried: values[v.end] for v in program.variables}
            alphas.append(found[program.alpha.carried])
        alphas = alphas[: asked + 1]
    else:
        values = carry_out(program.ops, {})
        states = [state["alpha"] for state in program.states]
        alphas = [machine.zeros() if alpha is None else values[alpha] for alpha in states]
    read = machine.smooth if program.smooths else machine.predict
    return Trajectory(torch.stack([read(alpha) for alpha in alphas]), f"{program.solver} program")


def start(variable: Variable, values: Values, machine: EagerMachine) -> Tensor:
    """What the first pass of a loop finds."""
    if isinstance(variable.start, Channel):
        return values[variable.start]
    zeros = machine.zeros()
    return (zeros if variable.carried.kind == "vector" else zeros[:, :1]) + variable.start


def steps_within(program: LoopedProgram, steps: int | None) -> int:
    if steps is None or not 0 <= steps <= program.most_steps:
        raise Refusal(
            f"The program is a loop: `steps` must be between 0 and {program.most_steps:,}, got {steps}."
        )
    return steps


def evaluate(op: Op, values: Values, machine: EagerMachine) -> Tensor:
    match op:
        case ops.Target():
            return machine.target()
        case ops.Diagonal():
            return machine.diagonal()
        case ops.RowSums():
            return machine.row_sums()
        case ops.MatVec(v=v):
            return machine.kernel_product(values[v])
        case ops.Dot(u=u, v=v):
            return machine.dot(values[u], values[v])
        case ops.Combine(terms=terms, constant=constant):
            total = sum(c * values[channel] for c, channel in terms) + constant
            assert isinstance(total, Tensor)
            return total
        case ops.Multiply(a=a, b=b):
            return values[a] * values[b]
        case ops.Clamp(x=x, lo=lo, hi=hi):
            return values[x].clamp(lo, hi)
        case ops.Invert(x=x, lo=lo, hi=hi):
            return 1 / values[x].clamp(lo, hi)
        case ops.InvertNear(x=x, near=near, lo=lo, hi=hi):
            guess = values[near].clamp(lo, hi)
            return 1 / (guess * (values[x] / guess).clamp(LEAST_RATIO, hi / lo))
        case ops.Unit(x=x, lo=lo, hi=hi, power=power):
            return unit_table(lo, hi, power)(values[x])
        case ops.Hold(x=x, lo=lo, hi=hi):
            rising = (values[x] - lo).clamp(min=0) * (hi / (hi - lo))
            return torch.where(values[x] < hi, rising, values[x])
        case ops.Identity():
            return machine.identity()
        case ops.Product(left=left, right=right, key=key):
            middle = None if key is None else values[key]
            return machine.product(values[left], values[right], middle)
        case ops.Apply(operator=operator, v=v, key=key):
            first = None if key is None else values[key]
            return machine.apply(values[operator], values[v], first)
        case ops.Carried(out=out):
            return values[out]


def check_bounds(op: ops.Clamp, x: Tensor) -> None:
    slack = 1e-9
    low, high = float(x.min()), float(x.max())
    if low < op.lo * (1 - slack) or high > op.hi * (1 + slack):
        raise Refusal(
            f"{op.x} reaches [{low:.4g}, {high:.4g}], outside [{op.lo:.4g}, {op.hi:.4g}], "
            f"although {op.why}."
        )
