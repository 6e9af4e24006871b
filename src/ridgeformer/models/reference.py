"""The solver that a compiled model was made from, as its certificate tells."""

from __future__ import annotations

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.domain import Domain
from ridgeformer.kernels import Kernel, kernel_from
from ridgeformer.solvers import Solver, certified_interval, make_solver, solve
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, Trajectory


def reference(
    model: CompiledModel, prompt: Prompt, *, steps: int | None = None, states: bool = False
) -> Trajectory:
    """What the model should compute: its solver, with its kernel, ridge and tuning, on the prompt.

    `steps` is that of `predict`, for a looped model.
    """
    solver = solver_of(model)
    return solve(
        solver,
        prompt,
        steps=model.certificate.at(steps).steps,
        ridge=1.0 if solver.smooths else ridge_of(model),  # a smoother reads none
        kernel=kernel_of(model),
        interval=None if solver.smooths else interval_of(model),
        states=states,
    )


def solver_of(model: CompiledModel) -> Solver:
    c = model.certificate
    return make_solver(c.solver, c.precondition, c.interval, **c.options)


def kernel_of(model: CompiledModel) -> Kernel:
    return kernel_from(model.certificate.kernel)


def ridge_of(model: CompiledModel) -> float:
    if model.certificate.ridge is None:
        raise Refusal("The model is a smoother and has no ridge: compile a solver.")
    return model.certificate.ridge


def interval_of(model: CompiledModel) -> Interval:
    """The interval that the model's fixed coefficients are tuned to."""
    c = model.certificate
    if c.interval is not None:
        return c.interval
    sums = None
    if c.max_norm is not None and c.max_supports is not None:
        sums = Domain(kernel_of(model), c.max_norm, c.max_supports, c.max_target).row_sums
    return certified_interval(c.precondition, ridge_of(model), c.max_eigenvalue, sums)  # type: ignore[arg-type]
