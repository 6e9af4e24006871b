"""What a program means: its operations carried out one by one on tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.program import ops
from ridgeformer.program.ops import Channel, Op, Program
from ridgeformer.program.tables import LEAST_RATIO, unit_table
from ridgeformer.solvers import EagerMachine
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, Trajectory


def interpret(
    program: Program, prompt: Prompt, kernel: Kernel | None = None, check: bool = False
) -> Trajectory:
    """The program's predictions after each step. `check=True` refuses a stated bound that fails."""
    machine = EagerMachine(prompt, kernel or DEFAULT_KERNEL, program.ridge)
    values: dict[Channel, Tensor] = {}
    for op in program.ops:
        values[op.out] = evaluate(op, values, machine)
        if check and isinstance(op, ops.Clamp):
            check_bounds(op, values[op.x])
    read = machine.smooth if program.smooths else machine.predict
    predictions = [
        read(machine.zeros() if state["alpha"] is None else values[state["alpha"]])
        for state in program.states
    ]
    return Trajectory(torch.stack(predictions), f"{program.solver} program")


def evaluate(op: Op, values: dict[Channel, Tensor], machine: EagerMachine) -> Tensor:
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


def check_bounds(op: ops.Clamp, x: Tensor) -> None:
    slack = 1e-9
    low, high = float(x.min()), float(x.max())
    if low < op.lo * (1 - slack) or high > op.hi * (1 + slack):
        raise Refusal(
            f"{op.x} reaches [{low:.4g}, {high:.4g}], outside [{op.lo:.4g}, {op.hi:.4g}], "
            f"although {op.why}."
        )
