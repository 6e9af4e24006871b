"""Which vectors a method with fixed coefficients multiplies by A."""

from __future__ import annotations

from math import pi

import numpy as np

from ridgeformer.solvers import Solver
from ridgeformer.solvers.machine import Interval, Precondition
from ridgeformer.theory.sensitivity import NotFixed, SpectralMachine, products_taken

FITS = 1e-8
"""The part by which a multiplied vector may differ from a combination of iterates, as round-off may have it."""


class Listening(SpectralMachine):
    """Keeps every vector that is multiplied by A, in a system that is divided by a weight: P⁻¹ is that weight."""

    def __init__(
        self, eigenvalues: np.ndarray, tuned: Interval, *, weight: float = 1.0, **known: float
    ) -> None:
        super().__init__(eigenvalues, tuned, **known)  # type: ignore[arg-type]
        self.weight = weight
        self.heard: list[np.ndarray] = []

    def matvec(self, v: np.ndarray) -> np.ndarray:
        self.heard.append(np.array(v))
        return super().matvec(v) / self.weight

    def target(self) -> np.ndarray:
        return super().target() / self.weight

    def inverse_preconditioner(self, kind: Precondition) -> float | None:
        return None if super().inverse_preconditioner(kind) is None else self.weight


def largest_multiplied(solver: Solver, *, steps: int, tuned: Interval) -> float:
    """The largest |a| + |b|, at least 1, if every vector that is multiplied is aα_s + bα_{s−1}, of the last two
    iterates, whatever errors earlier products carry; a method that multiplies other vectors is refused.

    It runs without errors and with an error of one in each of its products. Polynomials of degree n that are
    equal at more than n points are the same. A method with a preconditioner also runs with P⁻¹ = 3 in a system
    that is divided by three: its iterates, and what it multiplies, are the same only if P⁻¹ stands once before
    every y and every product, as in P⁻¹(y − Aα).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return largest_heard(solver, steps, tuned)


def largest_heard(solver: Solver, steps: int, tuned: Interval) -> float:
    products = products_taken(solver, steps=steps, tuned=tuned)
    count = 2 * products + 3
    nodes = sum(tuned) / 2 + (tuned[1] - tuned[0]) / 2 * np.cos(
        pi * (np.arange(count) + 0.5) / count
    )
    weights = (1.0,) if solver.precondition == "none" else (1.0, 3.0)
    runs = [
        Listening(nodes, tuned, weight=weight, **known)
        for weight in weights
        for known in ({"target": 1.0}, {"errors": products})
    ]
    states = [solver.init(machine) for machine in runs]
    largest, before = 1.0, joined([state.alpha for state in states])
    for t in range(1, steps + 1):
        now = joined([state.alpha for state in states])
        states = [solver.step(m, s, t) for m, s in zip(runs, states, strict=True)]
        for v in zip(*(machine.heard for machine in runs), strict=True):
            largest = max(largest, combined(solver, joined(list(v)), now, before))
        for machine in runs:
            machine.heard.clear()
        before = now
    if not all(alike(states[i].alpha, states[i - 2].alpha) for i in range(2, len(states))):
        raise NotFixed(f"{solver.name} does not read y and A through its preconditioner alone.")
    return largest


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() <= FITS * np.abs(other).max())


def joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


def combined(solver: Solver, v: np.ndarray, now: np.ndarray, before: np.ndarray) -> float:
    """|a| + |b| for v = a·now + b·before."""
    if np.array_equal(v, now):
        return 1.0
    if not np.isfinite([v, now, before]).all():
        raise NotFixed(f"The iterates of {solver.name} leave the range of float64.")
    columns = np.stack([now, before], axis=-1)
    factors = np.linalg.lstsq(columns, v, rcond=None)[0]
    if not np.abs(columns @ factors - v).max() <= FITS * np.abs(v).max():
        raise NotFixed(
            f"{solver.name} multiplies other vectors by A than combinations of its last two iterates."
        )
    return float(np.abs(factors).sum())
