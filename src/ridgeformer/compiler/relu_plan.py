"""Softmax attention with a plain ReLU MLP: how wide it must be for what is promised.

Only methods with fixed coefficients: their response to errors is a known polynomial. CG's
coefficients are quotients of inner products, and an error in one of them is amplified by the steps
after it without any bound that would be of use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, sqrt

from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.multiply import FINE_ENOUGH, Grid
from ridgeformer.compiler.request import Request
from ridgeformer.program import Program, ranges
from ridgeformer.solvers import certified_interval
from ridgeformer.theory import (
    Sensitivity,
    interpolated_prediction_bound,
    product_error_bound,
    sensitivity,
)
from ridgeformer.types import Refusal

WIDEST = 2**15
"""Neurons per layer beyond which a request is refused."""

COMFORTABLE = 512
"""Neurons per layer that a product may take before it is given another layer instead."""


RESERVE = 0.1
"""By how much an iterate may leave its exact range, as a fraction of it, before a table ends."""


@dataclass(frozen=True)
class ErrorBudget:
    """How the error of one product reaches a prediction."""

    first: tuple[float, float]
    """The range of the factor that depends on the data alone: w, or D."""
    second: tuple[float, float]
    """The range of the factor that changes: y − λα, or o."""
    spread: float
    """‖P^{1/2}ê‖ for errors ê of 1 at every support."""
    query: float
    """√k(x, x)"""
    response: Sensitivity
    direct: float
    """How often the product is read by a query itself."""
    room: float
    """How far an iterate may be off before a factor leaves its range."""
    least_scaling: float
    rest: float
    """What set-up and round-off cost."""

    def product(self, grid: Grid) -> float:
        return product_error_bound(self.first, self.second, grid.finest)

    def error(self, grid: Grid) -> float:
        """The certified error of every prediction; infinite where an iterate may leave its range."""
        once = self.product(grid)
        strays = self.spread * self.response.iterate * once / sqrt(self.least_scaling)
        if strays > self.room:
            return inf
        reached = interpolated_prediction_bound(
            once,
            spread=self.spread,
            query=self.query,
            response=self.response.prediction,
            direct=self.direct,
        )
        return reached + self.rest

    def grid(self, tolerance: float, layers: int) -> Grid:
        """The coarsest grid that keeps the tolerance."""
        if self.rest >= tolerance:
            raise Refusal(
                f"--tolerance {tolerance:g} is below the {self.rest:.3g} that round-off alone may cost "
                "in this domain: ask for more, or use --mlp reglu."
            )
        few, many = 1, 2
        while self.error(Grid(many, layers)) > tolerance:
            few, many = many, 2 * many
        while many - few > 1:
            middle = (few + many) // 2
            if self.error(Grid(middle, layers)) > tolerance:
                few = middle
            else:
                many = middle
        return Grid(many, layers)


def check_relu(request: Request, domain: Domain) -> None:
    if request.solver.name == "cg":
        raise Refusal(
            "cg with --mlp relu has no honest certificate: its coefficients are quotients of "
            "interpolated products, whose errors later steps amplify without a useful bound; use --mlp "
            "reglu, where products are exact, or chebyshev."
        )
    if request.dtype != "float64":
        raise Refusal(
            "With softmax attention and --mlp relu the certificate counts what interpolation costs, and "
            "float32 would round by more than that: use --dtype float64, or --mlp reglu."
        )
    if domain.max_target is None:
        raise Refusal("A plain ReLU MLP multiplies only over a range: --max-target must bound |y|.")
    if (request.tolerance is None) == (request.mlp_width is None):
        raise Refusal(
            "With softmax attention and --mlp relu give either --tolerance, the error to promise, or "
            "--mlp-width, the neurons to spend."
        )
    if request.tolerance is not None and not request.tolerance > 0:
        raise Refusal(f"--tolerance must be positive, got {request.tolerance}.")
    if request.mlp_width is not None and request.mlp_width < 32 * request.outputs:
        raise Refusal(
            f"--mlp-width must be at least {32 * request.outputs} for {request.outputs} outputs, got "
            f"{request.mlp_width}."
        )


def error_budget(request: Request, domain: Domain, program: Program) -> ErrorBudget:
    """How errors of the step's product reach a prediction, worst case over the domain."""
    assert domain.max_target is not None
    k, ridge = domain.max_supports, request.needed_ridge
    normalised = request.precondition == "row-sum"
    certain = certified_interval(
        "row-sum" if normalised else "none", ridge, domain.max_eigenvalue, domain.row_sums
    )
    tuned = request.interval or certain
    top = tuned[1]
    if normalised:  # a row of D⁻¹A sums to 1 + (λ − 1)/D, which leaves errors some room to die out
        top = min(top, max(1 + (ridge - 1) / sums for sums in domain.row_sums))
    spectrum = (min(certain[0], tuned[0]), top)
    response = sensitivity(
        request.solver,
        steps=request.steps,
        tuned=tuned,
        spectrum=spectrum,
        offset=0.0 if normalised else ridge,
    )
    alpha = largest_iterate(program)
    least, most = domain.row_sums
    if normalised:  # ê in w ⊙ (y − λα) − o, and ‖D^{1/2}ê‖ ≤ √(k·D_max)·max|ê|
        first, spread, direct = (1 / most, 1 / least), sqrt(k * most), 0.0
        second = domain.max_target + ridge * (1 + RESERVE) * alpha
    else:  # ê in K α = D ⊙ o, which a query computes once more to be read
        first, spread, direct = (1.0, most), sqrt(k), 1.0
        second = (1 + RESERVE) * alpha
    return ErrorBudget(
        first=first,
        second=(-second, second),
        spread=spread,
        query=sqrt(domain.kernel.range(domain.max_norm).most),
        response=response,
        direct=direct,
        room=RESERVE * alpha,
        least_scaling=least if normalised else 1.0,
        rest=set_up_error(domain, ridge, alpha),
    )


def largest_iterate(program: Program) -> float:
    bounds = ranges(program)
    return max(bounds[state["alpha"]][1] for state in program.states if state["alpha"])


def set_up_error(domain: Domain, ridge: float, alpha: float) -> float:
    """What inexact norms |x|² and the inexact last division cost, at 2⁻⁴⁸ of their ranges.

    A logit off by δ changes K by a factor e^δ: |f − f̂| ≤ (‖y‖/λ)(‖δk‖ + ‖k‖‖δK‖/λ).
    """
    assert domain.max_target is not None
    k, most = domain.max_supports, domain.kernel.range(domain.max_norm).most
    target = sqrt(k) * domain.max_target
    relative = 2 * domain.largest_logit * 4 / FINE_ENOUGH
    kernel = target / ridge * sqrt(k) * most * relative * (1 + k * most / ridge)
    division = 8 * domain.row_sums[1] * alpha / FINE_ENOUGH
    return kernel + division


def choose_grid(request: Request, budget: ErrorBudget) -> Grid:
    """How fine. With the row sums as preconditioner a step is one block; else products may go deeper."""
    products, one_block = 2 * request.outputs, request.precondition == "row-sum"
    if request.mlp_width is not None:
        return Grid(max(2, request.mlp_width // products), 1 if one_block else 2)
    assert request.tolerance is not None
    layers = 1
    grid = budget.grid(request.tolerance, layers)
    while not one_block and products * grid.intervals > COMFORTABLE:
        layers += 1
        grid = budget.grid(request.tolerance, layers)
    if products * grid.intervals > WIDEST:
        raise Refusal(
            f"--tolerance {request.tolerance:g} would take {products * grid.intervals:,} neurons a "
            f"layer, more than {WIDEST:,}: ask for a larger one, shrink the domain, or use --mlp reglu."
        )
    return grid


def narrower(grid: Grid, by: int, outputs: int) -> Grid:
    """The grid with so many neurons fewer."""
    return replace(grid, intervals=max(2, grid.intervals - ceil(by / (2 * outputs))))
