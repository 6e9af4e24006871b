"""How many steps a solver needs on training data, by a theorem that holds for every solver.

For any coefficients α with the residual r = y − (K + λI)α, the prediction k(x)ᵀα is within
‖A⁻¹k(x)‖·‖r‖ ≤ ½√(k(x, x)/λ)·‖r‖ of kernel ridge regression (`theory.residual_prediction_bound`). The
solver itself, run as numerics on the training pairs, says what its residuals are. Where a method adapts
to the data, as CG does, round-off can put a transformer a few steps behind the numerics; the residual is then
that of the coefficients which the transformer itself holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np
from torch import Tensor

from ridgeformer.program import Scope, trace
from ridgeformer.solvers import EagerMachine, Solver

PATIENCE = 2000
"""A solver that comes no nearer for so many steps is at what float64 can do. Heavy ball begins by going away."""


@dataclass(frozen=True)
class Progress:
    """Where a solver stands after some steps."""

    steps: int
    residuals: np.ndarray
    """‖y − Aα‖ of each output."""
    size: np.ndarray
    """The largest ‖f_t‖ = √(α_tᵀKα_t) of each output so far; |f_t(x)| ≤ √k(x, x)·‖f_t‖."""

    def within(self, allowed: np.ndarray, height: float, ridge: float) -> bool:
        return bool((self.errors(height, ridge) <= allowed).all())

    def with_alpha(self, machine: EagerMachine, alpha: Tensor, steps: int) -> Progress:
        """After so many steps of something else, which led to these coefficients."""
        return replace(self, steps=steps, residuals=residual_of(machine, alpha))

    def errors(self, height: float, ridge: float) -> np.ndarray:
        """Bounds on the distance to kernel ridge regression where √k(x, x) is at most `height`."""
        return 0.5 * height / sqrt(ridge) * self.residuals


def residual_of(machine: EagerMachine, alpha: Tensor) -> np.ndarray:
    """‖y − Aα‖ of each output."""
    left = machine.target() - machine.matvec(alpha)
    norms: np.ndarray = left.norm(dim=1)[0].numpy()
    return norms


def adapts(solver: Solver, ridge: float) -> bool:
    """Whether the solver's coefficients depend on the data, which its program says."""
    known = Scope(row_sums=(2.0, 3.0), operators=True)
    return trace(solver, steps=2, ridge=ridge, max_eigenvalue=1.0, scope=known).adaptive


def run_until(
    solver: Solver,
    machine: EagerMachine,
    allowed: np.ndarray,
    height: float,
    *,
    most: int,
    exactly: int | None = None,
) -> Progress:
    """Runs the solver until its errors are allowed, or for `exactly` so many steps.

    If they never are, what is returned is the best that it came to in `most` steps.
    """
    state = solver.init(machine)
    size = np.zeros(len(allowed))
    best, nearest = None, inf
    for t in range(1, (exactly or most) + 1):
        state = solver.step(machine, state, t)
        product = machine.kernel_product(state.alpha)
        energy = (state.alpha * product).sum(1)[0].clamp(min=0)
        size = np.maximum(size, energy.sqrt().numpy())
        now = Progress(t, residual_of(machine, state.alpha), size)
        if exactly is not None:
            best = now
            continue
        if now.within(allowed, height, machine.ridge):
            return now
        errors = now.errors(height, machine.ridge)
        short = float(
            np.divide(errors, allowed, out=np.zeros_like(errors), where=allowed > 0).max()
        )
        if best is None or short < nearest:
            best, nearest = now, short
        if t - best.steps >= PATIENCE or not np.isfinite(now.residuals).all():
            break
    assert best is not None, "at least one step is taken"
    return best
