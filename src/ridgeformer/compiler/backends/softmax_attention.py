"""Softmax attention: kernels that are exponentials, dot products from pairs of heads, and smoothers."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import ceil, inf, log2

from ridgeformer.compiler.backends.base import Backend, no_attention
from ridgeformer.compiler.backends.digit_budget import DigitBudget, check_digits, digit_budget
from ridgeformer.compiler.backends.digits import DigitMultiplier
from ridgeformer.compiler.backends.dot_product import DotProductLowering
from ridgeformer.compiler.backends.error_budget import (
    RESERVE,
    ErrorBudget,
    check_interpolation,
    chosen_grid,
    error_budget,
    most_within,
)
from ridgeformer.compiler.backends.head_errors import (
    LARGEST_PROMISE,
    HeadPairPromise,
    feature_error,
)
from ridgeformer.compiler.backends.multiply import Grid, Multiplier, SquareMultiplier
from ridgeformer.compiler.backends.set_up import SetUp
from ridgeformer.compiler.backends.softmax import SoftmaxLowering
from ridgeformer.compiler.certificate import PROMISE, Certificate, certify
from ridgeformer.compiler.circuit import Circuit
from ridgeformer.compiler.domain import LARGEST_LOGIT, Domain
from ridgeformer.compiler.job import Job
from ridgeformer.compiler.passes import erase, reuse, widest_mlp
from ridgeformer.compiler.targets import Exact, HeadPairs, Interpolated, SoftmaxAttention
from ridgeformer.kernels import Logits
from ridgeformer.program import Program, Scope, trace
from ridgeformer.program.ops import Diagonal
from ridgeformer.program.ranges import Bounds, ranges
from ridgeformer.theory import UNIT, HeadPairErrors, best_scale
from ridgeformer.types import Refusal

ROOMY_LOGIT = 2.0**18
"""The largest logit that a smoother serves when `max_norm` is left out."""


def softmax_backend(job: Job, target: SoftmaxAttention) -> Backend:
    """The backend for the job's kernel and the target's products."""
    logits = job.kernel.logits()
    if logits is None:
        return DotProductBackend(job, target)
    if target.dot_products is not None:
        raise Refusal(
            f"`dot_products` means nothing with the {job.kernel.name} kernel, which one head makes: "
            "leave it out."
        )
    if job.solver.smooths:
        return SmootherBackend(job, target, logits)
    match target.products:
        case Exact():
            return ExactBackend(job, target, logits)
        case Interpolated(digits=True):
            return DigitBackend(job, target, logits, target.products)
        case Interpolated():
            return InterpolatedBackend(job, target, logits, target.products)
    raise Refusal(
        f"{job.solver.name} multiplies within a token: use `products=Exact()`, or for a plain ReLU MLP "
        "`products=Interpolated(max_target=…, tolerance=…)`."
    )


def domain_of(job: Job, target: SoftmaxAttention) -> Domain:
    if target.max_norm is None or target.max_supports is None:
        raise Refusal(
            "With softmax attention the domain is needed: `max_norm` bounds |φ| and `max_supports` k."
        )
    max_target = None if target.products is None else target.products.max_target
    return Domain(job.kernel, target.max_norm, target.max_supports, max_target)


def push(largest_logit: float) -> float:
    """A logit so large that the exponentials of all others vanish beside its own."""
    return float(2.0 ** ceil(log2(1000 + 4 * largest_logit)))


class ExactBackend(Backend):
    """Products by a gated MLP."""

    attention, gated = "softmax", True

    def __init__(self, job: Job, target: SoftmaxAttention, logits: Logits) -> None:
        self.job, self.logits, self.feature_map = job, logits, logits.features
        self.check_feature_map()
        self.domain = domain_of(job, target)
        self.domain.check(job.dtype)

    def trace(self) -> Program:
        return self.program(self.job.steps)

    def program(self, steps: int) -> Program:
        domain, target = self.domain, None
        if domain.max_target is not None:
            target = domain.max_supports**0.5 * domain.max_target
        return self.job.trace(
            self.job.solver,
            steps=steps,
            ridge=self.job.needed_ridge,
            max_eigenvalue=domain.max_eigenvalue,
            dtype=self.job.dtype,
            scope=Scope(domain.row_sums, target, predictions=False),
        )

    def lowering(self, multiplier: Multiplier) -> SoftmaxLowering:
        return SoftmaxLowering(
            outputs=self.job.outputs,
            features=self.projected_features,
            feature_map=self.feature_map,
            logits=self.logits,
            multiplier=multiplier,
            row_sums=self.domain.row_sums,
            max_supports=self.domain.max_supports,
            push=push(self.domain.largest_logit),
        )

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        lowering = self.lowering(Multiplier())
        lowering.bounds = bounds
        return lowering.circuit(program)

    def certify(self, program: Program) -> Certificate:
        units = self.domain.units_of_logits(self.job.features)
        return certify(self.job, program, attention="softmax", domain=self.domain, units=units)


class InterpolatedBackend(ExactBackend):
    """Products by a plain ReLU MLP, as fine as the tolerance asks or the width allows."""

    gated = False

    def __init__(
        self, job: Job, target: SoftmaxAttention, logits: Logits, products: Interpolated
    ) -> None:
        super().__init__(job, target, logits)
        self.products = products
        if job.looped:
            raise Refusal(
                "Interpolated products err in every step, and how fine they must be depends on the number "
                "of steps, which a looped model leaves open: use `products=Exact()`, or compile without "
                "`looped`."
            )

    def trace(self) -> Program:
        program = super().trace()
        check_interpolation(self.job, self.products, program)
        return program

    @cached_property
    def budget(self) -> ErrorBudget:
        program = self.trace()
        return error_budget(self.job, self.domain, program, ranges(program), self.fine_neurons)

    @property
    def fine_neurons(self) -> int:
        """The number of neurons that a fine product may take in a layer."""
        # Two of them may run side by side, with some neurons for copies and erasures.
        width = self.products.width
        return 126 if width is None else min(126, (width - 44) // 2)

    @cached_property
    def grid(self) -> Grid:
        """How finely products are interpolated."""
        short = self.program(min(self.job.steps, 3))
        grid = chosen_grid(self.products, self.budget, self.job.outputs, short.normalised)
        if self.products.width is None:
            return grid
        # Products may share a layer, and some neurons update, copy and erase; a short program shows how many.
        bounds = ranges(short)

        def neurons(intervals: int) -> int:
            trial = self.lowered(short, bounds, replace(grid, intervals=intervals))
            return widest_mlp(erase(reuse(trial)), gated=False)

        return replace(grid, intervals=most_within(self.products.width, neurons, grid.intervals))

    @property
    def neurons(self) -> int:
        """The neurons of the widest layer; steps are alike, so that a short program shows them."""
        short = self.program(min(self.job.steps, 3))
        return widest_mlp(erase(reuse(self.lower(short, ranges(short)))), gated=False)

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        return self.lowered(program, bounds, self.grid)

    def lowered(self, program: Program, bounds: Bounds, grid: Grid) -> Circuit:
        multiplier = SquareMultiplier(grid, neurons=self.fine_neurons)
        return self.lowered_with(multiplier, program, bounds)

    def lowered_with(
        self, multiplier: SquareMultiplier, program: Program, bounds: Bounds
    ) -> Circuit:
        assert self.domain.max_target is not None
        lowering = self.lowering(multiplier)
        lowering.ratio_sites = program.normalised
        longest = self.logits.features.longest(self.domain.max_norm)
        multiplier.know(lowering.raw, -self.domain.max_norm, self.domain.max_norm)
        multiplier.know(lowering.phi, -longest, longest)
        multiplier.know(lowering.y, -self.domain.max_target, self.domain.max_target)
        grown = 1 + RESERVE
        lowering.bounds = {c: (grown * lo, grown * hi) for c, (lo, hi) in bounds.items()}
        return lowering.circuit(program)

    def certify(self, program: Program) -> Certificate:
        error = self.budget.error(self.grid)
        return certify(
            self.job, program, attention="softmax", domain=self.domain, absolute_error=error
        )


NEURONS_BESIDE_DIGITS = 16
"""How many neurons a square may take in a layer, so that products by digits need the widest one."""


class DigitBackend(InterpolatedBackend):
    """The step's product by the binary digits of 1/D, two blocks a step; see `digits`."""

    fine_neurons = NEURONS_BESIDE_DIGITS

    def trace(self) -> Program:
        program = super().trace()
        check_digits(self.job, program)
        return program

    @cached_property
    def digit_budget(self) -> DigitBudget:
        made = SetUp(self.domain, self.job.features, self.job.outputs, self.fine_neurons)
        return digit_budget(self.job, self.domain, self.budget, made.weights)

    @cached_property
    def digits(self) -> int:
        assert self.products.tolerance is not None
        return self.digit_budget.digits(self.products.tolerance)

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        multiplier = DigitMultiplier(neurons=self.fine_neurons, count=self.digits)
        return self.lowered_with(multiplier, program, bounds)

    def certify(self, program: Program) -> Certificate:
        error = self.digit_budget.error(self.digits)
        return certify(
            self.job, program, attention="softmax", domain=self.domain, absolute_error=error
        )


class DotProductBackend(Backend):
    """Dot products as the derivative of softmax averages; see `dot_product`."""

    attention, gated = "softmax", True

    def __init__(self, job: Job, target: SoftmaxAttention) -> None:
        self.job = job
        features = job.kernel.dot_product(job.features)
        if features is None:
            raise no_attention(job.kernel)
        if job.solver.smooths:
            raise Refusal(
                f"{job.solver.name} needs a positive kernel, and the {job.kernel.name} kernel is not "
                "one: use a kernel that is an exponential."
            )
        if not isinstance(target.products, Exact):
            raise Refusal(
                "Dot products from softmax heads are multiplied by the number of supports, a product "
                "within a token: use `products=Exact()`."
            )
        self.feature_map = features
        self.pairs = target.dot_products or HeadPairs()
        self.domain = domain_of(job, target)
        self.longest = self.domain.kernel.range(self.domain.max_norm).most ** 0.5  # of u(φ)
        if self.longest == 0:
            raise Refusal(
                "The projection is 0, and leaves no dot products: give a U that keeps something."
            )
        self.errors = self.chosen_errors()

    def chosen_errors(self) -> HeadPairErrors:
        """With the scale that was given, or the one that balances truncation against round-off."""
        unit = UNIT[self.job.dtype]
        width = self.feature_map.width(self.job.features)
        off = feature_error(self.feature_map, self.domain.max_norm, self.longest, unit)
        known = (self.domain.max_supports, width)
        pairs, epsilon = self.pairs.heads // 2, self.pairs.epsilon
        if epsilon is None:
            return best_scale(*known, pairs, self.longest, unit, off)
        return HeadPairErrors(*known, epsilon, pairs, self.longest, unit, off)

    def trace(self) -> Program:
        return self.job.trace(
            self.job.solver,
            steps=self.job.steps,
            ridge=self.job.needed_ridge,
            max_eigenvalue=self.domain.max_eigenvalue,
            dtype=self.job.dtype,
            scope=Scope(predictions=False),
        )

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        lowering = DotProductLowering(
            outputs=self.job.outputs,
            features=self.projected_features,
            feature_map=self.feature_map,
            max_supports=self.domain.max_supports,
            head_pairs=self.errors.pairs,
            epsilon=self.errors.epsilon,
            push=push(2 * self.errors.pairs * self.errors.epsilon * self.longest**2),
        )
        lowering.bounds = bounds
        return lowering.circuit(program)

    def certify(self, program: Program) -> Certificate:
        """The error that is proved; without one the model is refused, unless its scale was given."""
        promise = HeadPairPromise(self.job, self.domain, self.errors)
        # A solver that divides by diag(A) without saying so has another spectrum than is assumed.
        hidden = self.job.solver.precondition == "none" and any(
            isinstance(op, Diagonal) for op in program.ops
        )
        error = inf if self.errors.too_large or hidden else promise.error(self.job.steps)
        if error > LARGEST_PROMISE:
            if self.pairs.epsilon is None:
                raise promise.refusal()
            return certify(
                self.job, program, attention="softmax", domain=self.domain, absolute_error=inf
            )
        error = max(PROMISE[self.job.dtype][0], error)
        certificate = certify(
            self.job, program, attention="softmax", domain=self.domain, relative_error=error
        )
        return replace(certificate, updates_unproved=promise.updates_unproved)


class SmootherBackend(Backend):
    """One head that averages targets, for any number of supports."""

    attention = "softmax"

    def __init__(self, job: Job, target: SoftmaxAttention, logits: Logits) -> None:
        self.job, self.logits, self.feature_map = job, logits, logits.features
        self.gated, self.max_supports = isinstance(target.products, Exact), target.max_supports
        self.check_feature_map()
        if target.products not in (None, Exact()):
            raise Refusal(
                f"{job.solver.name} multiplies no targets: use `products=None` for a plain ReLU MLP."
            )
        if job.looped:
            raise Refusal(
                f"{job.solver.name} is one head, not an iteration, and there is nothing to repeat: leave "
                "`looped` out."
            )
        if job.steps != 1:
            raise Refusal(f"{job.solver.name} is one head, not an iteration: leave `steps` out.")
        max_norm = target.max_norm
        if max_norm is None:
            if not self.feature_map.linear or (logits.norm and not self.gated):
                raise Refusal(
                    "A plain ReLU MLP squares |x| only over a range, and features that are not linear "
                    "have one: give `max_norm`, or use `products=Exact()`."
                )
            roomy = min(ROOMY_LOGIT, LARGEST_LOGIT[job.dtype]) if logits.norm else ROOMY_LOGIT
            max_norm = (roomy / logits.largest(1.0)) ** 0.5
        self.domain = Domain(job.kernel, max_norm, target.max_supports or 1)
        self.domain.check_logits(job.dtype)

    def trace(self) -> Program:
        return trace(self.job.solver, steps=1, ridge=1.0, max_eigenvalue=1.0, dtype=self.job.dtype)

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        lowering = SoftmaxLowering(
            outputs=self.job.outputs,
            features=self.projected_features,
            feature_map=self.feature_map,
            logits=self.logits,
            multiplier=Multiplier() if self.gated else SquareMultiplier(),
            push=push(self.domain.largest_logit),
        )
        lowering.bounds = bounds
        longest = self.feature_map.longest(self.domain.max_norm)
        lowering.multiplier.know(lowering.phi, -longest, longest)
        return lowering.circuit(program)

    def certify(self, program: Program) -> Certificate:
        units = self.domain.units_of_logits(self.job.features)
        if self.logits.norm and not self.gated:
            # Both norms in a logit are interpolated, and a logit off by δ changes its weight by e^δ.
            made = SetUp(
                self.domain, self.job.features, self.job.outputs, SquareMultiplier().neurons
            )
            units += made.logit / UNIT[self.job.dtype]
        certificate = certify(
            self.job, program, attention="softmax", domain=self.domain, units=units
        )
        return replace(certificate, max_supports=self.max_supports, ridge=None)
