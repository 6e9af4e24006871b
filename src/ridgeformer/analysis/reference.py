"""What an edited model must compute, worked out without the model: solvers with a part taken away."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.domain import Domain
from ridgeformer.kernels import Kernel
from ridgeformer.models.reference import interval_of, kernel_of, ridge_of, solver_of
from ridgeformer.program import Channel, Program, Scope, trace
from ridgeformer.program.interpret import evaluate
from ridgeformer.program.ops import Dot
from ridgeformer.solvers import EagerMachine
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


class WithoutKernel(EagerMachine):
    """A machine that returns 0 for the products K v whose numbers, from 0 on, are in `dropped`."""

    dropped: Collection[int] = ()
    asked = 0

    def kernel_product(self, v: Tensor) -> Tensor:
        self.asked += 1
        return torch.zeros_like(v) if self.asked - 1 in self.dropped else super().kernel_product(v)

    def row_sums(self) -> Tensor:
        """The preconditioner comes from the heads' normaliser, which is left intact."""
        return 1 + EagerMachine.kernel_product(self, torch.ones_like(self.prompt.y[..., :1]))


def coefficients(
    model: CompiledModel, prompt: Prompt, dropped: Collection[int] = (), ridge: float | None = None
) -> tuple[WithoutKernel, Tensor]:
    """The machine, and α_0 … α_T of the model's solver without the products in `dropped`."""
    solver = solver_of(model)
    machine = WithoutKernel(
        prompt, kernel_of(model), ridge or ridge_of(model), interval=interval_of(model)
    )
    machine.dropped = dropped
    state = solver.init(machine)
    alphas = [state.alpha]
    for t in range(1, model.certificate.steps + 1):
        state = solver.step(machine, state, t)
        alphas.append(state.alpha)
    return machine, torch.stack(alphas)


def program_of(model: CompiledModel) -> Program:
    """The program that a dual model was compiled from."""
    c, scope = model.certificate, Scope()
    if c.space != "dual":
        raise Refusal("The model solves in feature space: compile it without `causal=True`.")
    if c.max_norm is not None and c.max_supports is not None:
        scope = Scope(Domain(kernel_of(model), c.max_norm, c.max_supports).row_sums)
    return trace(
        solver_of(model), steps=c.steps, ridge=ridge_of(model), max_eigenvalue=c.max_eigenvalue,
        dtype=c.dtype, scope=scope,
    )  # fmt: skip


def values_without_reductions(
    program: Program, prompt: Prompt, kernel: Kernel
) -> dict[Channel, Tensor]:
    """Every value of the program if each uᵀv is 0; clamps and tables are those of the model."""
    machine = EagerMachine(prompt, kernel, program.ridge)
    values: dict[Channel, Tensor] = {}
    for op in program.ops:
        value = evaluate(op, values, machine)
        values[op.out] = torch.zeros_like(value) if isinstance(op, Dot) else value
    return values


def apart(found: Tensor, expected: Tensor, size: Tensor | None = None) -> float:
    """The largest difference, relative to the largest entry of `size` or `expected`; 0/0 is 0."""
    scale = float((expected if size is None else size).abs().max())
    return float((found - expected).abs().max()) / (scale or 1.0)
