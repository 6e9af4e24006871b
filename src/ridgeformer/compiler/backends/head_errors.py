"""What can be promised where pairs of softmax heads make dot products: a bound on predictions, or nothing.

A promise is relative to R²·max_s ‖α_s‖₁, where R² is the domain's largest dot product and s runs over the
solver's steps, or to the largest prediction if that is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt

from ridgeformer.compiler.domain import Domain, slack
from ridgeformer.compiler.job import Job
from ridgeformer.kernels import FeatureMap
from ridgeformer.solvers import Chebyshev, ConjugateGradient, certified_interval
from ridgeformer.theory import (
    UNIT,
    HeadPairErrors,
    InexactCG,
    NotFixed,
    Sensitivity,
    accumulated,
    heads_fixed_bound,
    largest_multiplied,
    long_sensitivity,
    semi_iteration_weights,
    sensitivity,
    update_round_off_bound,
    written_out,
)
from ridgeformer.theory.dot_products import RECIPROCAL
from ridgeformer.types import Refusal, counted

LARGEST_PROMISE = 0.1
"""An error that cannot be bounded by this is not promised."""

LONG = 256
"""Beyond so many steps the responses of a method are bounded in closed form."""

ROOM_ABOVE = 3.98
"""The clamp of pᵀAp reaches at least so many times the largest eigenvalue that is served, in CG's unit."""

SCALARS = RECIPROCAL + 128
"""Units of round-off, besides those of a sum over tokens, in each scalar and update of a compiled CG."""


@dataclass(frozen=True)
class HeadPairPromise:
    """The certified error of a job whose products with K have the given errors.

    Prompts may be a little longer than the domain has it. All that depends on them is bounded for the
    longest that are served; what was compiled, and what the error is relative to, is that of the domain.
    """

    job: Job
    domain: Domain
    made: HeadPairErrors
    """The errors of the heads inside the domain."""

    @property
    def ridge(self) -> float:
        return self.job.needed_ridge

    @cached_property
    def reached(self) -> Domain:
        return self.domain.reached(self.job.dtype)

    @cached_property
    def errors(self) -> HeadPairErrors:
        """The errors of the heads for all prompts that are served."""
        unit, kernel = self.made.unit, self.domain.kernel
        longest = kernel.range(self.reached.max_norm).most ** 0.5
        features = kernel.dot_product(self.job.features)
        assert features is not None
        off = feature_error(features, self.reached.max_norm, longest, unit)
        return replace(self.made, max_norm=longest, feature_error=off)

    @property
    def largest(self) -> float:
        """R², the largest dot product in the domain."""
        return self.made.max_norm**2

    @property
    def scaling(self) -> tuple[float, float]:
        """The range of the entries of the preconditioner."""
        if self.job.solver.precondition == "none":
            return 1.0, 1.0
        least = self.domain.kernel.range(self.reached.max_norm).least_diagonal
        return self.ridge + max(least, 0.0), self.ridge + self.errors.max_norm**2

    @property
    def spectrum(self) -> tuple[float, float]:
        """Where the eigenvalues of P⁻¹A lie; with Jacobi they add up to k."""
        top = self.ridge + self.reached.max_eigenvalue
        least, most = self.scaling
        if self.job.solver.precondition == "none":
            return self.ridge, top
        return self.ridge / most, min(float(self.domain.max_supports), top / least)

    def error(self, steps: int) -> float:
        """The relative error of every step up to `steps`, or ∞ if nothing is proved."""
        if self.conjugate:
            return self.error_of_cg(steps)
        try:
            return self.error_of_fixed(steps)
        except NotFixed:
            return inf

    # ------------------------------------------------------------------ conjugate gradients

    @property
    def conjugate(self) -> bool:
        """Whether the step is that of CG; a user's own step that derives from it is another method."""
        return type(self.job.solver).step is ConjugateGradient.step

    @property
    def cg(self) -> InexactCG:
        """The recurrence; A p is rounded by twelve units of λ|p|, and Jacobi's P has the errors of features."""
        terms = self.errors.tokens + self.errors.features + SCALARS
        unit = accumulated(terms, UNIT[self.job.dtype])
        product = self.errors.operator / self.ridge + accumulated(12, UNIT[self.job.dtype])
        lowest, scale = self.tuned[0], self.scaling[0]
        if self.job.solver.precondition != "none":
            error = self.errors.feature_error
            off = error * (2 + error) * self.errors.max_norm**2 / scale
            unit = unit + 4 * off if off <= 0.25 else inf
        return InexactCG(*self.spectrum, product, unit, least=lowest)

    def error_of_cg(self, steps: int) -> float:
        """(R·F·χ√P_max + τ(1 + F·χ√(P_max/λ)))/R², F the error of the energy and τ that of one reading."""
        a, b = self.spectrum
        if 4 * self.tuned[1] < ROOM_ABOVE * b:
            return inf
        # ‖α*‖_A ≤ χ‖P^{1/2}α₁‖ for the first iterate of CG
        energy = sqrt(4 * (a + b) ** 3 / (27 * a * b)) * sqrt(self.scaling[1])
        found = self.cg.energy_error(steps)
        if found == inf:
            return inf
        read = self.errors.entry * (1 + found * energy / sqrt(self.ridge))
        return (self.errors.max_norm * found * energy + read) / self.largest

    # ------------------------------------------------------------------ fixed coefficients

    @property
    def tuned(self) -> tuple[float, float]:
        solver = self.job.solver
        if solver.interval is not None:
            return solver.interval
        return certified_interval(solver.precondition, self.ridge, self.domain.max_eigenvalue)

    def responses(self, steps: int) -> Sensitivity:
        offset = self.ridge if self.job.solver.precondition == "none" else 0.0
        lo, hi = self.spectrum
        if self.job.solver.interval is not None:  # a prompt with a larger eigenvalue is refused
            served = slack(self.job.dtype, modes=self.domain.max_supports)
            hi = min(hi, self.tuned[1] * served)
        spectrum = (lo, hi)
        known = {"tuned": self.tuned, "spectrum": spectrum, "offset": offset}
        if steps > LONG:
            return long_sensitivity(self.job.solver, steps=steps, **known)  # type: ignore[arg-type]
        return sensitivity(self.job.solver, steps=steps, **known)  # type: ignore[arg-type]

    def error_of_fixed(self, steps: int) -> float:
        """`heads_fixed_bound` over R²; see `updates_unproved`."""
        found = heads_fixed_bound(
            self.responses(steps),
            self.errors,
            update=self.unit_of_updates(steps),
            ridge=self.ridge,
            centre=sum(self.tuned) / 2,
            scaling=self.scaling,
            multiplied=self.multiplied(steps),
        )
        return found / self.largest

    def multiplied(self, steps: int) -> float:
        """How long a vector that is multiplied by K may be, in units of the longest iterate."""
        solver = self.job.solver
        if written_out(solver):
            return 1.0
        return largest_multiplied(solver, steps=min(steps, LONG), tuned=self.tuned)

    def unit_of_updates(self, steps: int) -> float:
        """The relative error of each term of an update α' + ω(α − α' + P⁻¹r/c), and 0 for other updates."""
        solver = self.job.solver
        if not self.semi_iteration(min(steps, LONG)):
            return 0.0
        return update_round_off_bound(
            self.errors,
            condition=self.tuned[1] / self.tuned[0],
            least_scaling=None if solver.precondition == "none" else self.scaling[0],
            looped=self.job.looped,
            chebyshev=isinstance(solver, Chebyshev),
        )

    @property
    def updates_unproved(self) -> bool:
        """Whether what is promised leaves out the round-off of updates, or counts it as if they were written
        another way: no theorem bounds that of a step of the user's own."""
        if self.conjugate:
            return False
        return not (written_out(self.job.solver) and self.semi_iteration(LONG))

    def semi_iteration(self, steps: int) -> bool:
        """Whether the steps are α' + ω(α − α' + P⁻¹r/c): one of the package's with a length of one's own is not."""
        try:
            semi_iteration_weights(self.job.solver, steps=steps, tuned=self.tuned)
        except Refusal:
            return False
        return True

    # ------------------------------------------------------------------ what else would do

    def unknown(self) -> str:
        """Why no number of steps of the solver can be promised, or nothing."""
        if self.conjugate:
            return ""
        few = min(self.job.steps, LONG)
        try:
            self.responses(few)
        except NotFixed:
            return "whose coefficients depend on the data"
        try:
            self.multiplied(few)
        except NotFixed:
            return "which multiplies other vectors by K than combinations of its last two iterates"
        return ""

    def refusal(self) -> Refusal:
        """Names the most steps that could be promised, and what to do instead."""
        steps, heads = self.job.steps, 2 * self.errors.pairs
        possible, unknown = 0, min(steps, 512)
        while possible < unknown:  # the bound rises with the number of steps
            middle = (possible + unknown + 1) // 2
            if self.error(middle) <= LARGEST_PROMISE:
                possible = middle
            else:
                unknown = middle - 1
        condition, name = self.spectrum[1] / self.spectrum[0], self.job.solver.name
        own = "; with a scale `epsilon` of your own in `HeadPairs` the model is made, and promises nothing."
        if why := self.unknown():
            return Refusal(
                f"With dot products from softmax heads nothing can be promised for {name}, {why}: use "
                f"`chebyshev`, `gd`, or `to=LinearAttention(…)`{own}"
            )
        if self.conjugate:
            why = "conjugate gradients amplify the errors of products"
            instead = "use `chebyshev` or `gd`, which do not, a larger `ridge`"
        else:
            why, instead = "errors of products add up", "use more `heads`, a larger `ridge`"
        most = f"at most {counted(possible, 'step')}" if possible else "no step"
        return Refusal(
            f"With dot products from {heads} softmax heads, {most} of {name} can be promised where cond(P⁻¹A) "
            f"may reach {condition:.3g}, and not {steps:,}, because {why}: {instead}, or "
            f"`to=LinearAttention(…)`{own}"
        )


def feature_error(features: FeatureMap, max_norm: float, longest: float, unit: float) -> float:
    """How far u(φ) may be off by its own round-off, relative to the largest |u(φ)|."""
    error, reach = 0.0, max_norm
    if features.projection is not None:
        weights = features.projection.double()
        error = accumulated(weights.shape[1] + 2, unit) * float(weights.norm()) * reach
        reach = float(weights.norm()) * reach
    if features.hidden is not None:
        weights, bias = (part.double() for part in features.hidden)
        size = float(weights.norm()) * reach + float(bias.norm())
        error = float(weights.norm()) * error + accumulated(weights.shape[1] + 3, unit) * size
        reach = size
    if features.monomials is None:
        return error / longest
    # A monomial of degree d rises by d·reach^(d−1) at most, and its d + 1 products round.
    relative = error / reach + accumulated(6, unit)
    sizes = [(m.weight * reach ** len(m.indices), len(m.indices)) for m in features.monomials]
    total = sum((size * ((1 + relative) ** (degree + 1) - 1)) ** 2 for size, degree in sizes)
    return sqrt(total) / longest
