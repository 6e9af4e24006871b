"""The solver that a compiled model was made from, as its certificate tells."""

from __future__ import annotations

from dataclasses import replace

import torch

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.domain import Domain
from ridgeformer.kernels import Kernel, Linear, kernel_from
from ridgeformer.solvers import Solver, certified_interval, make_solver, solve
from ridgeformer.solvers.base import run
from ridgeformer.solvers.feature_machine import FeatureMachine
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.theory import prefix_prompts
from ridgeformer.types import Refusal, Trajectory


def reference(
    model: CompiledModel,
    prompt: Prompt,
    *,
    steps: int | None = None,
    states: bool = False,
    prefixes: bool = False,
) -> Trajectory:
    """What the model computes: its solver, with its kernel, ridge and tuning, on the prompt, in the space
    in which the model works.

    Causal decoders solve in feature space, where `alpha` is the weight vector w and adaptive methods
    have iterates of their own. `steps` is that of `predict`, for a looped model, and `prefixes` that of
    `trajectory`, for a decoder that solves every prefix.
    """
    solver, kernel, taken = solver_of(model), kernel_of(model), model.certificate.at(steps).steps
    if prefixes:
        model.every_x(prompt)  # refuses a model that predicts at the queries alone
    if solver.smooths:
        return solve(solver, prompt, steps=taken, ridge=1.0, kernel=kernel, states=states)
    ridge, interval = ridge_of(model), interval_of(model)
    if model.certificate.space != "feature":
        return solve(
            solver,
            prompt,
            steps=taken,
            ridge=ridge,
            kernel=kernel,
            interval=interval,
            states=states,
        )
    found = run(solver, FeatureMachine(prompt, kernel, ridge, interval), steps=taken, states=states)
    if not prefixes:
        return found
    each = prefix_prompts(prompt, kernel).to(prompt.y.dtype)
    before = run(solver, FeatureMachine(each, Linear(), ridge, interval), steps=taken).predictions
    before = before.reshape(len(before), *prompt.y.shape[:1], prompt.supports + 1, -1)[:, :, :-1]
    return replace(found, predictions=torch.cat([before, found.predictions], dim=2))


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
