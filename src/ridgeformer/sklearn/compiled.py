"""A solver on one regression problem, as numerics and as transformers of any number of steps."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial

import numpy as np
import torch

from ridgeformer.compiler import CompiledModel, compile
from ridgeformer.compiler.compile import LONGEST_LOOP
from ridgeformer.compiler.targets import LinearAttention, Target
from ridgeformer.kernels import Kernel
from ridgeformer.models.compiled import predicted_with_alpha
from ridgeformer.models.reference import interval_of
from ridgeformer.sklearn.steps import Progress, adapts, run_until
from ridgeformer.solvers import EagerMachine, Solver
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

LONGEST_WRITTEN_OUT = 500
"""The most steps of a solver that no loop can hold: each has layers of its own."""

ATTEMPTS = 8
"""How often a transformer that round-off keeps behind the numerics gets a quarter more steps."""

WIDER = 1e-9
"""How much wider than the spectrum an interval is, for round-off."""


@dataclass(frozen=True)
class Compiled:
    solver: Solver
    prompt: Prompt
    machine: EagerMachine
    build: partial[CompiledModel]
    loop: CompiledModel | None
    """The model for every number of steps, where a loop can hold a step."""

    @staticmethod
    def of(
        solver: Solver,
        prompt: Prompt,
        kernel: Kernel,
        ridge: float,
        to: Target,
        steps: int | None = None,
    ) -> Compiled:
        """Compiles a loop, if the solver has one; `steps` is the number that it must serve, if one is asked for."""
        solver = tuned(solver, prompt, kernel, ridge, to)
        build = partial(
            compile,
            solver,
            features=prompt.features,
            outputs=prompt.outputs,
            ridge=ridge,
            kernel=kernel,
            to=to,
        )
        loop, model = first_models(build, max(LONGEST_LOOP, steps or 1))
        model.check(prompt)
        # The numerics run with the tuning that the certificate names.
        machine = EagerMachine(prompt, kernel, ridge, interval=interval_of(model))
        return Compiled(solver, prompt, machine, build, loop)

    @property
    def most(self) -> int:
        return LONGEST_WRITTEN_OUT if self.loop is None else LONGEST_LOOP

    def model(self, steps: int) -> CompiledModel:
        """A model that serves so many steps."""
        return self.build(steps=steps) if self.loop is None else self.loop

    def run(self, allowed: np.ndarray, height: float, steps: int | None) -> Progress:
        """The steps that bring errors down to what is allowed, or as many as are asked for."""
        ridge = self.machine.ridge
        progress = run_until(
            self.solver, self.machine, allowed, height, most=self.most, exactly=steps
        )
        if not adapts(self.solver, ridge):
            return progress
        done = steps is not None or not progress.within(allowed, height, ridge)
        progress = self.held(progress, progress.steps)
        for _ in range(ATTEMPTS):
            if done or progress.within(allowed, height, ridge) or progress.steps == self.most:
                break
            progress = self.held(progress, min(self.most, progress.steps * 5 // 4 + 1))
        return progress

    def held(self, progress: Progress, steps: int) -> Progress:
        """Where the transformer itself stands after so many steps, in a pass that predicts at the supports."""
        looped = None if self.loop is None else steps
        prompt = replace(self.prompt, phi_query=self.prompt.phi)
        _, alpha = predicted_with_alpha(self.model(steps), prompt, steps=looped)
        return progress if alpha is None else progress.with_alpha(self.machine, alpha, steps)


def first_models(
    build: partial[CompiledModel], most: int
) -> tuple[CompiledModel | None, CompiledModel]:
    """A loop for up to `most` steps, where there is one, and any model."""
    try:
        loop = build(steps=most, looped=True)
    except Refusal:
        loop = None  # whatever is the matter besides the loop is said below
    if loop is not None:
        return loop, loop
    try:
        return None, build(steps=1)
    except Refusal as refusal:
        raise Refusal(
            f"{refusal} (In terms of `gamma`, a temperature is 1/γ and a lengthscale 1/√(2γ); `max_norm` and "
            "`max_supports` follow from the training rows.)"
        ) from refusal


def tuned(solver: Solver, prompt: Prompt, kernel: Kernel, ridge: float, to: Target) -> Solver:
    """The solver with an interval that holds the spectrum of these data, if it needs one and has none.

    Where P = I, linear attention needs none: [λ, λ + λ_max(K)] is already as narrow.
    """
    takes = is_dataclass(solver) and "interval" in {field.name for field in fields(solver)}
    known = solver.precondition == "none" and isinstance(to, LinearAttention)
    if not takes or solver.interval is not None or known:
        return solver
    return replace(solver, interval=spectrum(solver, prompt, kernel, ridge))  # type: ignore[type-var]


def spectrum(solver: Solver, prompt: Prompt, kernel: Kernel, ridge: float) -> Interval:
    machine = EagerMachine(prompt, kernel, ridge)
    lo, hi = machine.interval(solver.precondition)
    inverse = machine.inverse_preconditioner(solver.precondition)
    # λ_min(P⁻¹A) ≥ λ/max P, where round-off may have lost it.
    least = ridge * (1.0 if inverse is None else float(torch.min(inverse)))
    return max(lo, least) * (1 - WIDER), hi * (1 + WIDER)
