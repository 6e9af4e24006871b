"""Products by the digits of 1/D: how many of them a promised error needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, log2, sqrt

from ridgeformer import theory
from ridgeformer.compiler.backends.error_budget import RESERVE, ErrorBudget
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.job import Job
from ridgeformer.program import Program
from ridgeformer.types import Refusal

FEWEST = 4
"""With fewer digits, the two sets of them would be told apart less sharply than the bound says."""

LARGEST_PART = 0.01
"""By which part 1/D may be off, so that its digits are still those of a number that has them."""


@dataclass(frozen=True)
class DigitBudget:
    """How the errors of all products of a step reach a prediction.

    The error of a product is relative to its factor b = y − λα, so that errors are bounded in the norm:
    ‖D^{1/2}ê‖ ≤ √D_max·(U·(¼ + 2^{−M−7})2^{−M}‖b‖ + √k·round-off).
    """

    budget: ErrorBudget
    """The budget for errors of norm 1."""
    unit: float
    length: float
    """A bound on ‖y − λα‖."""
    supports: int
    weights: float
    """How far 1/D is off, relatively."""
    least: float
    """The smallest D."""
    step: float
    """The length η of a step."""
    fewest: int
    """As many digits as the smallest 1/D needs to have one at all."""

    def errors(self, digits: int) -> float:
        """‖ê‖ of the products of one step."""
        if self.weights > LARGEST_PART:
            return inf
        iterate = (1 + RESERVE) * self.budget.alpha
        round_off = theory.digit_round_off_bound(
            digits,
            weights=self.weights,
            least=self.least,
            alpha=iterate,
            b=self.budget.second[1],
            step=self.step,
        )
        exact = theory.digit_product_bound(digits, self.unit) * self.length
        return exact + sqrt(self.supports) * (round_off + self.budget.weights)

    def error(self, digits: int) -> float:
        """The certified error of every prediction; infinite where an iterate may leave its range."""
        return self.budget.reached(self.errors(digits))

    def spent(self, digits: int) -> float:
        """The part of the certified error that set-up and round-off cost."""
        exact = theory.digit_error(digits) * self.unit * self.length
        return self.error(digits) - self.budget.reached(exact) + self.budget.reading

    def digits(self, tolerance: float) -> int:
        """The fewest digits that meet the tolerance."""
        if self.fewest > theory.MOST_DIGITS:
            raise Refusal(
                f"The smallest 1/D in this domain needs {self.fewest} digits, more than the "
                f"{theory.MOST_DIGITS} that float64 can tell apart: raise the `temperature`, lower "
                "`max_norm`, or use `products=Exact()`."
            )
        for digits in range(self.fewest, theory.MOST_DIGITS + 1):
            if self.error(digits) <= tolerance:
                return digits
        raise Refusal(
            f"`tolerance` {tolerance:g} is below the {self.error(theory.MOST_DIGITS):.3g} that "
            f"{theory.MOST_DIGITS} digits and round-off may cost in this domain: ask for more, or use "
            "`products=Exact()`."
        )


def check_digits(job: Job, program: Program) -> None:
    if not program.normalised:
        raise Refusal(
            f"`digits=True` multiplies by the digits of 1/D, by which {job.solver.name} does not multiply "
            'without row sums: use `precondition="row-sum"`, or leave `digits` out.'
        )


def digit_budget(job: Job, domain: Domain, budget: ErrorBudget, weights: float) -> DigitBudget:
    """The budget of squares, with errors that are bounded in the norm instead of entry by entry."""
    assert domain.max_target is not None
    ridge, k = job.needed_ridge, domain.max_supports
    iterate = (1 + RESERVE) * budget.alpha
    lo, hi = job.solver.interval or (ridge / domain.row_sums[1], 1 + ridge / domain.row_sums[0])
    unit = theory.unit_of_digits(1 / domain.row_sums[0])
    return DigitBudget(
        budget=replace(budget, spread=sqrt(domain.row_sums[1])),
        unit=unit,
        fewest=max(FEWEST, ceil(log2(unit * domain.row_sums[1]))),
        length=sqrt(k) * domain.max_target + ridge * iterate,
        supports=k,
        weights=weights,
        least=domain.row_sums[0],
        step=2 / (lo + hi),
    )
