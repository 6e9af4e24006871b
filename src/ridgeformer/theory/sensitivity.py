"""The polynomials of methods with fixed coefficients, found by running the methods on single eigenvalues.

The iterates of such a method are linear in y, with polynomials in S = P^{−1/2} A P^{−1/2} as
coefficients, so that one run on many scalar systems σα = 1 tells everything about it:

- the residual polynomial q_t, for which P^{1/2}(α* − α_t) = q_t(S)P^{1/2}α*;
- the response R_{T,s} of the iterate of step T to a unit error in the s-th product with A. A query reads
  it through g = P^{−1/2}k(x), and g gᵀ ⪯ k(x, x)·P^{−1/2}KP^{−1/2}, so that an error ê of that product
  moves a prediction by at most √k(x, x)·max_σ √σ|R_{T,s}(σ)|·‖ê‖, and errors of all products add up.

A method that takes inner products, such as conjugate gradients, has no such polynomials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import acosh, cos, exp, inf, log, pi, sqrt
from typing import Any

import numpy as np

from ridgeformer.solvers import Chebyshev, HeavyBall, Machine, Solver
from ridgeformer.solvers.machine import Interval, Precondition
from ridgeformer.solvers.richardson import Stationary
from ridgeformer.types import Refusal

NEARLY_INSIDE = 1e-3
"""Responses have a closed form up to this part of half the interval outside of it."""


def written_out(solver: Solver) -> bool:
    """Whether the steps are those whose additions and products the theorems on round-off count, one by one.

    A step of the user's own may have the same iterates and round otherwise, or multiply other vectors by A.
    """
    kind = type(solver)
    return any(
        issubclass(kind, base)
        and all(
            getattr(kind, name) is part
            for name, part in vars(base).items()
            if callable(part) and not name.startswith("__")
        )
        for base in (Stationary, HeavyBall, Chebyshev)
    )


class NotFixed(Refusal):
    """The method's coefficients depend on the target, so that no polynomial describes it."""


def adaptive(*_: Any) -> Any:
    raise NotFixed(
        "The coefficients of the method are not fixed: it uses inner products, reciprocals or matrices, so "
        "that no polynomial which is the same for all targets describes it."
    )


class SpectralMachine(Machine):
    """Runs a recurrence on many eigenvalues at once.

    A vector is an array [runs, eigenvalues]. In run s the s-th product with A is off by one, so that
    with a target of 0 the iterates are the responses. With a target of 1 and a single run without
    errors, they are the iterates for σα = 1.
    """

    def __init__(
        self,
        eigenvalues: np.ndarray,
        tuned: Interval,
        *,
        errors: int = 0,
        target: float = 0.0,
        ridge: float = 0.0,
    ) -> None:
        self.eigenvalues, self.tuned, self.ridge = eigenvalues, tuned, ridge
        self.errors, self.right_hand_side = errors, target
        self.preconditioned = False
        self.products = 0
        """The number of products with A that have been taken."""

    def matvec(self, v: np.ndarray) -> np.ndarray:
        product: np.ndarray = v * self.eigenvalues
        if self.products < self.errors:
            product[self.products] -= 1.0  # the residual y − Aα is then off by +1
        self.products += 1
        return product

    def kernel_product(self, v: np.ndarray) -> np.ndarray:
        if self.preconditioned:  # K and P have no eigenvectors in common
            adaptive()
        return self.matvec(v) - self.ridge * v

    def inverse_preconditioner(self, kind: Precondition) -> float | None:
        """The eigenvalues are those of the preconditioned system, in which P = I."""
        self.preconditioned = kind != "none"
        return 1.0 if self.preconditioned else None

    def target(self) -> np.ndarray:
        return np.full((max(self.errors, 1), len(self.eigenvalues)), self.right_hand_side)

    def zeros(self) -> np.ndarray:
        return np.zeros((max(self.errors, 1), len(self.eigenvalues)))

    def interval(self, kind: Precondition) -> Interval:
        return self.tuned

    def bound(self, v: np.ndarray, norm: Callable[[], float], why: str) -> np.ndarray:
        return v

    def target_norm(self) -> Interval:
        return 0.0, float("inf")

    def identity(self) -> np.ndarray:
        """An operator is diagonal, too: its values at the eigenvalues."""
        if self.errors:
            raise NotFixed(
                "The method multiplies polynomials in A with each other, and with them their errors, so "
                "that an iterate has no response to the error of a single product."
            )
        return np.ones_like(self.eigenvalues)

    def product(
        self, left: np.ndarray, right: np.ndarray, key: np.ndarray | None = None
    ) -> np.ndarray:
        product: np.ndarray = left * self.apply(right, self.eigenvalues, key)
        return product

    def apply(
        self, operator: np.ndarray, v: np.ndarray, key: np.ndarray | None = None
    ) -> np.ndarray:
        image: np.ndarray = operator * v if key is None else key * operator * v
        return image

    diagonal: Any = adaptive
    row_sums: Any = adaptive
    dot: Any = adaptive
    reciprocal: Any = adaptive
    unit: Any = adaptive
    hold: Any = adaptive
    assume: Any = adaptive
    dense_system: Any = adaptive


def iterates(machine: SpectralMachine, solver: Solver, steps: int) -> list[np.ndarray]:
    """α_0 … α_steps on every eigenvalue."""
    state = solver.init(machine)
    kept = [np.asarray(state.alpha).copy()]
    for t in range(1, steps + 1):
        state = solver.step(machine, state, t)
        kept.append(np.asarray(state.alpha).copy())
    return kept


def residual_polynomials(
    solver: Solver, eigenvalues: np.ndarray, *, steps: int, tuned: Interval, ridge: float = 0.0
) -> np.ndarray:
    """q_t(σ) = 1 − σα_t for t = 0 … steps at the given eigenvalues σ of S, [steps + 1, eigenvalues].

    α_t is what t steps of the solver, tuned to an interval, make of the scalar system σα = 1. A
    solver whose coefficients are not fixed is refused.
    """
    values = np.asarray(eigenvalues, dtype=float)
    machine = SpectralMachine(values, tuned, target=1.0, ridge=ridge)
    return np.stack([1 - values * alpha[0] for alpha in iterates(machine, solver, steps)])


def products_taken(solver: Solver, *, steps: int, tuned: Interval) -> int:
    """The number of products with A that the solver takes in the given number of steps."""
    machine = SpectralMachine(np.array([sum(tuned) / 2]), tuned, target=1.0)
    iterates(machine, solver, steps)
    return machine.products


@dataclass(frozen=True)
class Sensitivity:
    """Sums of the largest responses over all products before step T, maximised over T.

    They hold for errors ê with ‖P^{1/2}ê‖ ≤ 1 in every residual P⁻¹(y − Aα), and for k(x, x) = 1.
    """

    prediction: float
    """Σ_s max_σ √(σ − offset)·|R_{T,s}(σ)|: a prediction is off by at most this."""
    iterate: float
    """Σ_s max_σ |R_{T,s}(σ)|: P^{1/2}α is off by at most this."""


def sensitivity(
    solver: Solver, *, steps: int, tuned: Interval, spectrum: Interval, offset: float = 0.0
) -> Sensitivity:
    """The sums of the largest responses of the recurrence, from one run on a grid of eigenvalues.

    After n products (σ − offset)·R² is a polynomial of degree at most 2n + 1. M Chebyshev points
    give the largest value of a polynomial of degree d up to the factor 1/cos(πd/2M), if it is nowhere
    negative. No eigenvalue is below the offset, wherever the method is tuned to.
    """
    products = products_taken(solver, steps=steps, tuned=tuned)
    degree = 2 * products + 1
    points = 2 * degree
    lo, hi = max(spectrum[0], offset), max(spectrum[1], offset)
    nodes = np.cos(pi * (np.arange(points) + 0.5) / points)
    eigenvalues = (hi + lo) / 2 + (hi - lo) / 2 * nodes
    weights = {
        "prediction": np.sqrt(np.maximum(eigenvalues - offset, 0.0)),
        "iterate": np.ones(points),
    }
    period = products_in_a_period(solver, tuned, steps)
    machine = SpectralMachine(eigenvalues, tuned, errors=period or products, ridge=offset)
    largest, total = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
    for response in iterates(machine, solver, steps)[1:]:
        for name, weight in weights.items():
            now = float(np.abs(response * weight).max(axis=1).sum())
            # If all steps are alike, the responses to their errors are the same, only delayed.
            total[name] = total[name] + now if period else now
            largest[name] = max(largest[name], total[name])
    missed = 1 / sqrt(cos(pi * degree / (2 * points)))
    return Sensitivity(**{name: missed * value for name, value in largest.items()})


def long_sensitivity(
    solver: Solver, *, steps: int, tuned: Interval, spectrum: Interval, offset: float = 0.0
) -> Sensitivity:
    """The same for many steps, in closed form, by |R| ≤ Σ|R| over all steps and √(σ − offset) at its end.

    With c the centre of the interval and θ = (√κ − 1)/(√κ + 1), an error that is j steps old counts
    ϱ^j/c in Richardson iteration, ϱ = max|1 − σ/c|, (1 + θ²)(j + 1)θ^j/c in the heavy ball method, and
    2(1 + θ²)(j + 1)θ^j/c in Chebyshev iteration, j = 0, 1, … An eigenvalue that is outside of the interval by a
    part ζ of its half-width has θ·exp(arcosh(1 + ζ)) for θ in θ^j. Other methods are refused, as their
    first steps do not tell their later ones.
    """
    (a, b), (lo, hi) = spectrum, tuned
    centre, root = (lo + hi) / 2, sqrt(hi / lo)
    theta = (root - 1) / (root + 1)
    if isinstance(solver, Stationary) and written_out(solver):
        factor = max(abs(1 - a / centre), abs(1 - b / centre))
        total = steps / centre if factor >= 1 else min(steps, 1 / (1 - factor)) / centre
        if factor > 1:
            total *= factor**steps
    elif not written_out(solver):
        raise NotFixed(
            f"The responses of {solver.name} to old errors have no closed form, which more than a few "
            "hundred steps need: ask for fewer."
        )
    elif max(lo - a, b - hi) > NEARLY_INSIDE * (hi - lo) / 2:
        raise NotFixed(
            f"{solver.name} may meet eigenvalues outside its interval, where its responses have no closed form."
        )
    else:
        first = (1 + theta**2) * (1 if isinstance(solver, HeavyBall) else 2)
        outside = max(lo - a, b - hi, 0.0)
        factor = theta * exp(acosh(1 + 2 * outside / (hi - lo))) if outside else theta
        total = first / centre * sum_of_powers(factor, steps)
    return Sensitivity(prediction=sqrt(max(b - offset, 0.0)) * total, iterate=total)


def sum_of_powers(factor: float, steps: int) -> float:
    """A bound on Σ (j + 1)·factor^j over j < steps."""
    if factor < 1:
        return 1 / (1 - factor) ** 2
    size = 2 * log(steps + 1) + steps * log(factor)
    return exp(size) if size < 700 else inf


def products_in_a_period(solver: Solver, tuned: Interval, steps: int) -> int:
    """The number of products in a step if all steps respond to errors alike, and 0 otherwise."""
    steps = max(steps, 4)
    one, all_of_them = (products_taken(solver, steps=t, tuned=tuned) for t in (1, steps))
    if one == 0 or all_of_them != steps * one:
        return 0
    machine = SpectralMachine(np.linspace(*tuned, 5), tuned, errors=2 * one)
    kept = iterates(machine, solver, steps)
    same = all(np.array_equal(kept[t][:one], kept[t + 1][one:]) for t in range(steps))
    return one if same else 0


def semi_iteration_weights(
    solver: Solver, *, steps: int, tuned: Interval
) -> list[tuple[float, bool]]:
    """The weight ω of each step, and whether the step remembers the iterate before the last.

    A step is α_{t+1} = α' + ω(α_t − α' + c⁻¹P⁻¹(y − Aα_t)), where c is the centre of the interval,
    and α' is α_{t−1} if the step remembers it and α_t otherwise. Chebyshev iteration and heavy ball
    have this form with ω ≥ 1, and Richardson iteration has it with ω = 1. Any other solver is
    refused.
    """
    centre = sum(tuned) / 2
    # With negative eigenvalues the iterates do not converge, so every step shows its coefficients.
    values = -centre * np.linspace(0.1, 1.0, 7)
    machine = SpectralMachine(values, tuned, target=1.0)
    kept = [alpha[0] for alpha in iterates(machine, solver, steps)]
    weights = []
    for t in range(steps):
        now, new = kept[t], kept[t + 1]
        forms = ((False, now), (True, kept[max(t - 1, 0)]))
        for remembers, before in forms:
            ratio = (new - before) / (now - before + (1 - values * now) / centre)
            omega = float(ratio.mean())
            fits = np.abs(ratio - omega).max() < 1e-9 and omega > 1 - 1e-9
            if fits and (remembers or omega < 1 + 1e-9):
                weights.append((omega, remembers))
                break
        else:
            raise Refusal(
                f"{solver.name} is not a semi-iteration α' + ω(α − α' + r/c) with ω ≥ 1, where c "
                "is the centre of its interval, so there is no bound on its round-off."
            )
    return weights
