"""Softmax attention with a plain ReLU MLP: how wide it must be for what is promised.

Only methods with fixed coefficients: their response to errors is a known polynomial. CG's
coefficients are quotients of inner products, and an error in one of them is amplified by the steps
after it without any bound that would be of use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.multiply import FINE_ENOUGH, Grid, product_error
from ridgeformer.compiler.request import Request
from ridgeformer.program import Program, ranges
from ridgeformer.solvers import certified_interval
from ridgeformer.theory import amplification
from ridgeformer.types import Refusal

WIDEST = 2**15
"""Neurons per layer beyond which a request is refused."""

COMFORTABLE = 512
"""Neurons per layer that a product may take before it is given another layer instead."""


@dataclass(frozen=True)
class ErrorBudget:
    """certified error = weight·(error of one product) + rest"""

    first: tuple[float, float]
    """The range of the factor that depends on the data alone: w, or D."""
    second: tuple[float, float]
    """The range of the factor that changes: y − λα, or o."""
    weight: float
    rest: float

    def error(self, grid: Grid) -> float:
        return self.weight * product_error(self.first, self.second, grid) + self.rest

    def grid(self, tolerance: float, layers: int) -> Grid:
        """The coarsest grid that keeps the tolerance."""
        if self.rest >= tolerance:
            raise Refusal(
                f"--tolerance {tolerance:g} is below the {self.rest:.3g} that round-off alone may cost "
                "in this domain: ask for more, or use --mlp reglu."
            )
        once = product_error(self.first, self.second, Grid(1))
        ratio = self.weight * once / (tolerance - self.rest)
        return Grid(max(2, ceil(ratio ** (1 / (2 * layers)))), layers)


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
    kernel_most = domain.kernel.range(domain.max_norm).most
    bounds = ranges(program)
    alpha = max(bounds[state["alpha"]][1] for state in program.states if state["alpha"])
    normalised = request.precondition == "row-sum"
    certain = certified_interval(
        request.solver.precondition if normalised else "none",  # type: ignore[attr-defined]
        ridge, domain.max_eigenvalue, domain.row_sums,
    )  # fmt: skip
    tuned = request.interval or certain
    response = amplification(
        request.solver,
        steps=request.steps,
        tuned=tuned,
        spectrum=(min(certain[0], tuned[0]), tuned[1]),
        offset=0.0 if normalised else ridge,
    )
    least, most = domain.row_sums
    if normalised:  # ê in w ⊙ (y − λα) − o, and ‖D^{1/2}ê‖ ≤ √(k·D_max)·max|ê|
        first, spread = (1 / most, 1 / least), sqrt(k * most)
        second = domain.max_target + ridge * alpha
        direct = 0.0
    else:  # ê in K α = D ⊙ o, which a query computes once more to be read
        first, spread = (1.0, most), sqrt(k)
        second, direct = alpha, 1.0
    weight = sqrt(kernel_most) * spread * response + direct
    return ErrorBudget(first, (-second, second), weight, set_up_error(domain, ridge, alpha))


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
    """One layer where the architecture asks for one block a step; else as deep as is comfortable."""
    products = 2 * request.outputs
    if request.mlp_width is not None:
        layers = 1 if request.precondition == "row-sum" else 2
        return Grid(max(2, request.mlp_width // products), layers)
    assert request.tolerance is not None
    layers = 1
    grid = budget.grid(request.tolerance, layers)
    if request.precondition != "row-sum":
        while products * grid.intervals > COMFORTABLE:
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
