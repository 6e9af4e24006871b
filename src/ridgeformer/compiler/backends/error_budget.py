"""Interpolated products behind softmax attention: how fine they must be for the promised error.

Only methods with fixed coefficients have such a budget, as their response to errors is a known
polynomial. An adaptive method's coefficients are quotients of inner products, and later steps
amplify an error in one of them without a useful bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

from ridgeformer import theory
from ridgeformer.compiler.backends.multiply import Grid
from ridgeformer.compiler.backends.set_up import SetUp
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.job import Job
from ridgeformer.compiler.targets import Interpolated
from ridgeformer.program import Program, largest_vector
from ridgeformer.program.ops import Combine, MatVec, Multiply, Target
from ridgeformer.program.ranges import Bounds
from ridgeformer.solvers import Chebyshev, certified_interval
from ridgeformer.types import Refusal

WIDEST = 2**15
"""The number of neurons per layer beyond which a request is refused."""

COMFORTABLE = 512
"""The number of neurons per layer beyond which a product is given another layer instead."""

FINEST, MOST_LAYERS = 2**30, 16
"""The number of intervals in all, and of layers, beyond which round-off is more than they save."""

RESERVE = 0.1
"""The fraction by which an iterate may exceed its exact range before it leaves that of a table."""


@dataclass(frozen=True)
class ErrorBudget:
    """How the error of one product reaches a prediction."""

    alpha: float
    """A bound on the norm of an iterate."""
    first: tuple[float, float]
    """The range of the factor that depends on the data alone: w, or D."""
    second: tuple[float, float]
    """The range of the factor that changes: y − λα, or o."""
    spread: float
    """‖P^{1/2}ê‖ for errors ê of 1 at every support."""
    query: float
    """√k(x, x)"""
    response: theory.Sensitivity
    direct: float
    """How often the product is read by a query itself."""
    room: float
    """How far an iterate may be off before a factor leaves its range."""
    least_scaling: float
    set_up: float
    """What set-up and attention add to the error of a residual at one support."""
    outside: float
    """What is added, divided by the number of intervals, as D and o may leave their ranges by so much."""
    update: float
    """What the sum of an update is rounded by, per unit of round-off of each of its terms."""
    weights: float
    """What the weights of steps add to the error of a residual at one support, where a recurrence makes them."""
    reading: float
    """What set-up and round-off add to the error of a prediction that a query reads."""

    def round_off(self, grid: Grid) -> float:
        """What set-up and round-off add to the error of a residual at one support."""
        layers = theory.Layers(grid.intervals, grid.layers)
        product = theory.product_round_off(self.first, self.second, layers)
        sums = (layers.terms + 24) * theory.UNIT["float64"] * self.update
        return product + sums + self.weights + self.set_up + self.outside / grid.intervals

    def product(self, grid: Grid) -> float:
        exact = theory.product_error_bound(self.first, self.second, grid.finest)
        return exact + self.round_off(grid)

    def error(self, grid: Grid) -> float:
        """The certified error of every prediction; infinite where an iterate may leave its range."""
        return self.reached(self.product(grid))

    def reached(self, once: float) -> float:
        """The same, from the error of one product."""
        strays = self.spread * self.response.iterate * once / sqrt(self.least_scaling)
        if strays > self.room:
            return inf
        bound = theory.interpolated_prediction_bound(
            once,
            spread=self.spread,
            query=self.query,
            response=self.response.prediction,
            direct=self.direct,
        )
        return bound + self.reading

    def spent(self, grid: Grid) -> float:
        """The part of the certified error that set-up and round-off cost."""
        reach = self.query * self.spread * self.response.prediction + self.direct
        return reach * self.round_off(grid) + self.reading

    def grid(self, tolerance: float, layers: int) -> Grid | None:
        """The coarsest grid that meets the tolerance; None if round-off leaves no room for it."""
        few, many = 1, 2
        while self.error(Grid(many, layers)) > tolerance:
            few, many = many, 2 * many
            if many**layers > FINEST:
                return None
        while many - few > 1:
            middle = (few + many) // 2
            if self.error(Grid(middle, layers)) > tolerance:
                few = middle
            else:
                many = middle
        return Grid(many, layers)


def check_interpolation(job: Job, products: Interpolated, program: Program) -> None:
    if program.adaptive:
        raise Refusal(
            f"{job.solver.name} with interpolated products has no honest certificate: its coefficients "
            "are quotients of such products, whose errors later steps amplify without a useful bound; "
            "use `products=Exact()`, or a solver with fixed coefficients."
        )
    if not theory.written_out(job.solver):
        raise Refusal(
            "What interpolated products cost is proved for the steps of `gd`, `richardson`, `chebyshev` and "
            f"`heavy-ball`, and {job.solver.name} has others: use `products=Exact()`, or one of these."
        )
    if job.dtype != "float64":
        raise Refusal(
            "With softmax attention and interpolated products the certificate counts what interpolation "
            'costs, and float32 would round by more than that: use `dtype="float64"`, or '
            "`products=Exact()`."
        )
    if products.width is not None and products.width < 32 * job.outputs:
        raise Refusal(
            f"`width` must be at least {32 * job.outputs} for {job.outputs} outputs, got "
            f"{products.width}."
        )


def error_budget(
    job: Job, domain: Domain, program: Program, bounds: Bounds, neurons: int
) -> ErrorBudget:
    """How errors of the step's product reach a prediction, in the worst case over the domain."""
    assert domain.max_target is not None
    k, ridge = domain.max_supports, job.needed_ridge
    certain = certified_interval(
        job.solver.precondition, ridge, domain.max_eigenvalue, domain.row_sums
    )
    tuned = job.solver.interval or certain
    top = tuned[1]
    if (
        program.normalised
    ):  # a row of D⁻¹A sums to 1 + (λ − 1)/D, which leaves errors room to die out
        top = min(top, max(1 + (ridge - 1) / sums for sums in domain.row_sums))
    response = theory.sensitivity(
        job.solver,
        steps=job.steps,
        tuned=tuned,
        spectrum=(min(certain[0], tuned[0]), top),
        offset=0.0 if program.normalised else ridge,
    )
    alpha = max(bounds[state["alpha"]][1] for state in program.states if state["alpha"])
    least, most = domain.row_sums
    made = SetUp(domain, job.features, job.outputs, neurons)
    iterate, step = (1 + RESERVE) * alpha, 2 / sum(tuned)
    if program.normalised:  # ê in w ⊙ (y − λα) − o, and ‖D^{1/2}ê‖ ≤ √(k·D_max)·max|ê|
        first, spread, direct = (1 / most, 1 / least), sqrt(k * most), 0.0
        second = weighted_range(program, bounds, domain.max_target)
        fits = theory.balance(first, (-second, second)) * made.weights / least <= 2 * second
        set_up = made.weights * (3 * second / least + iterate) if fits else inf
        outside = 0.0
        update, reading = (1 + 4 / step) * iterate, made.reading(iterate)
    else:  # ê in K α = D ⊙ o, which a query computes once more to be read
        first, spread, direct = (1.0, most), sqrt(k), 1.0
        second = (1 + RESERVE) * largest_vector(program, bounds)
        set_up, outside = made.inside(second), made.outside(second)
        update, reading = (ridge + 4 / step) * iterate + domain.max_target, 0.0
    return ErrorBudget(
        alpha=alpha,
        first=first,
        second=(-second, second),
        spread=spread,
        query=sqrt(domain.kernel.range(domain.max_norm).most),
        response=response,
        direct=direct,
        room=RESERVE * alpha,
        least_scaling=least if program.normalised else 1.0,
        set_up=set_up,
        outside=outside,
        update=update,
        weights=recurrence_error(job, tuned, iterate),
        reading=reading,
    )


def recurrence_error(job: Job, tuned: tuple[float, float], iterate: float) -> float:
    """28Xu·c‖α‖, X = (√κ + 1)²/2√κ: what the round-off of Chebyshev's ω costs a residual; other weights are
    off by a few roundings, which an update counts."""
    if not isinstance(job.solver, Chebyshev):
        return 0.0
    off = theory.divisor_error_bound(theory.UNIT["float64"], tuned[1] / tuned[0])
    return 14 * off * sum(tuned) * iterate if tuned[1] <= 1e14 * tuned[0] else inf


def weighted_range(program: Program, bounds: Bounds, max_target: float) -> float:
    """The largest entry that is multiplied by 1/D: of y − λα, as K α comes divided by D already."""
    made = {op.out: op for op in program.ops}
    largest = 0.0
    for product in program.ops:
        if isinstance(product, Multiply) and product.a.kind == "token":
            vector = made[product.b]
            terms = vector.terms if isinstance(vector, Combine) else ((1.0, product.b),)
            entry = 0.0
            for coefficient, channel in terms:
                match made[channel]:
                    case MatVec():
                        continue
                    case Target():
                        size = max_target
                    case _:
                        size = (1 + RESERVE) * bounds[channel][1]
                entry += abs(coefficient) * size
            largest = max(largest, entry)
    return largest


def chosen_grid(products: Interpolated, budget: ErrorBudget, outputs: int, one_block: bool) -> Grid:
    """The grid for the requested tolerance or width.

    With row sums as preconditioner a step is one block; otherwise products may take more layers.
    """
    squares = 2 * outputs
    if products.width is not None:
        return Grid(max(2, products.width // squares), 1 if one_block else 2)
    assert products.tolerance is not None
    grid = None
    for layers in range(1, 2 if one_block else MOST_LAYERS + 1):
        grid = budget.grid(products.tolerance, layers) or grid
        if grid is not None and squares * grid.intervals <= COMFORTABLE:
            break
    if grid is None:
        least = budget.spent(Grid(2))
        why = f"is below the {least:.3g} that round-off alone may cost in this domain"
        if least < products.tolerance:
            why = "leaves no room for the round-off of products that are as fine in this domain"
        raise Refusal(
            f"`tolerance` {products.tolerance:g} {why}: ask for more, or use `products=Exact()`."
        )
    if squares * grid.intervals > WIDEST:
        raise Refusal(
            f"`tolerance` {products.tolerance:g} would take {squares * grid.intervals:,} neurons a "
            f"layer, more than {WIDEST:,}: ask for a larger one, shrink the domain, or use "
            "`products=Exact()`."
        )
    return grid


def most_within(width: int, neurons: Callable[[int], int], most: int) -> int:
    """The largest number of intervals up to `most` that needs no more neurons than the width; 2 at least.

    Neurons grow with the intervals, and linearly where these are many.
    """
    few, many = 2, most
    if many <= few or neurons(many) <= width:
        return many
    at_few, at_many = neurons(few), neurons(many)
    while many - few > 1 and at_few <= width:
        slope = (at_many - at_few) / (many - few)
        guess = few + int((width - at_few) / slope)
        middle = min(max(guess, few + 1), many - 1)
        at = neurons(middle)
        if at <= width:
            few, at_few = middle, at
            beyond = min(middle + 1, many)  # the guess is exact where neurons are linear
            if beyond < many and (at := neurons(beyond)) > width:
                many, at_many = beyond, at
        else:
            many, at_many = middle, at
    return few
