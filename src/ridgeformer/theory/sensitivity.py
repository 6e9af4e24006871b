"""How much errors made along the way matter for a prediction, for methods with fixed coefficients.

Such a method is a polynomial in S = P^{−1/2} A P^{−1/2}. An error ê added to the residual of step s
reaches the iterate of step T as R(S)·ê, where R is the response of the recurrence to an impulse: the
solver itself, run on single eigenvalues, says which. A query reads it through g = P^{−1/2}k(x), and

    g gᵀ ⪯ k(x, x)·P^{−1/2} K P^{−1/2}        (K with the query's row and column is positive too)

so that |gᵀ R(S) P^{1/2} ê| ≤ √k(x, x)·max_σ √σ|R(σ)|·‖P^{1/2}ê‖, and errors of all steps add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi, sqrt
from typing import Any

import numpy as np

from ridgeformer.solvers import Machine, Solver
from ridgeformer.solvers.machine import Interval, Precondition


def no_scalars(*_: Any) -> Any:
    raise AssertionError("a method with fixed coefficients uses mat-vecs alone")


class SpectralMachine(Machine):
    """Runs a recurrence on many eigenvalues at once, with an impulse in the residual of each step.

    A vector is an array [impulses, eigenvalues]; the target is 0, so all that is left is response.
    """

    def __init__(self, eigenvalues: np.ndarray, impulses: int, tuned: Interval) -> None:
        self.eigenvalues, self.tuned, self.ridge = eigenvalues, tuned, 0.0
        self.shape, self.step = (impulses, len(eigenvalues)), 0

    def matvec(self, v: np.ndarray) -> np.ndarray:
        product: np.ndarray = v * self.eigenvalues
        if self.step < self.shape[0]:
            product[self.step] -= 1.0  # the residual is y − A α
        self.step += 1
        return product

    def inverse_preconditioner(self, kind: Precondition) -> None:
        return None  # the eigenvalues are those of the preconditioned system

    def target(self) -> np.ndarray:
        return np.zeros(self.shape)

    def zeros(self) -> np.ndarray:
        return np.zeros(self.shape)

    def interval(self, kind: Precondition) -> Interval:
        return self.tuned

    def bound(self, v: np.ndarray, norm: Callable[[], float], why: str) -> np.ndarray:
        return v

    def target_norm(self) -> Interval:
        return 0.0, float("inf")

    kernel_product: Any
    diagonal: Any
    row_sums: Any
    dot: Any
    reciprocal: Any
    unit: Any
    hold: Any
    assume: Any
    dense_system: Any
    kernel_product = diagonal = row_sums = dot = reciprocal = unit = hold = no_scalars
    assume = dense_system = no_scalars


@dataclass(frozen=True)
class Sensitivity:
    """Worst-case sums over the impulses s < T, the worst over T, with R = R_{T,s} and σ in the spectrum.

    With ‖P^{1/2}ê‖ ≤ e for the error of each residual, and k(x, x) = 1:
    """

    prediction: float
    """Σ_s max √(σ − offset)·|R(σ)|: a prediction is off by at most this times e."""
    iterate: float
    """Σ_s max |R(σ)|: P^{1/2}α is off by at most this times e."""


def amplification(
    solver: Solver,
    *,
    steps: int,
    tuned: Interval,
    spectrum: Interval,
    offset: float = 0.0,
) -> float:
    """How much errors in the residuals are amplified on their way to a prediction, at most."""
    return sensitivity(
        solver, steps=steps, tuned=tuned, spectrum=spectrum, offset=offset
    ).prediction


def sensitivity(
    solver: Solver,
    *,
    steps: int,
    tuned: Interval,
    spectrum: Interval,
    offset: float = 0.0,
) -> Sensitivity:
    """The responses of the recurrence, run once on a grid of eigenvalues.

    The squared weights times R² are polynomials of degree 2T + 1 at most, and M Chebyshev points find
    the largest value of one of degree n up to the factor 1/cos(πn/2M).
    """
    degree = 2 * steps + 1
    points = 2 * degree
    lo, hi = spectrum
    nodes = np.cos(pi * (np.arange(points) + 0.5) / points)
    eigenvalues = (hi + lo) / 2 + (hi - lo) / 2 * nodes
    weights = {
        "prediction": np.sqrt(np.maximum(eigenvalues - offset, 0.0)),
        "iterate": np.ones(points),
    }
    impulses = 1 if is_stationary(solver, tuned) else steps
    machine = SpectralMachine(eigenvalues, impulses, tuned)
    state = solver.init(machine)
    largest, total = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
    for t in range(1, steps + 1):
        state = solver.step(machine, state, t)
        response = np.asarray(state.alpha)
        for name, weight in weights.items():
            found = np.abs(response * weight).max(axis=1)
            # A recurrence that never changes answers every impulse alike, only later.
            total[name] = total[name] + float(found[0]) if impulses == 1 else float(found.sum())
            largest[name] = max(largest[name], total[name])
    missed = 1 / sqrt(cos(pi * degree / (2 * points)))
    return Sensitivity(**{name: missed * value for name, value in largest.items()})


def is_stationary(solver: Solver, tuned: Interval) -> bool:
    """Whether the second step answers an impulse as the first one does."""
    machine = SpectralMachine(np.linspace(*tuned, 5), 2, tuned)
    state = solver.init(machine)
    first = []
    for t in range(1, 5):
        state = solver.step(machine, state, t)
        first.append(np.asarray(state.alpha).copy())
    return all(np.array_equal(first[t][0], first[t + 1][1]) for t in range(3))
