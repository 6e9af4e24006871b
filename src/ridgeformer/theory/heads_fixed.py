"""Semi-iterations whose products with K come from pairs of softmax heads: what reaches a prediction."""

from __future__ import annotations

from math import inf, sqrt

from ridgeformer.solvers.machine import Interval
from ridgeformer.theory.dot_products import RECIPROCAL, HeadPairErrors
from ridgeformer.theory.loops import divisor_error_bound
from ridgeformer.theory.round_off import UNIT, accumulated
from ridgeformer.theory.sensitivity import Sensitivity


def heads_fixed_bound(
    response: Sensitivity,
    errors: HeadPairErrors,
    *,
    update: float,
    ridge: float,
    centre: float,
    scaling: Interval = (1.0, 1.0),
    multiplied: float = 1.0,
) -> float:
    """|f̂_T − f_T| ≤ R·Σ√σ|R_{T,s}|·e/√P_min + τ·â for max_s ‖α_s‖ = 1, or ∞ where iterates may stray.

    â = (1 + m·υ·c·P_max)/(1 − m·μ) bounds all ‖α̂_s‖ and e = μ·â + υ·c·P_max all errors of residuals, with
    μ = ĉ(η(1 + υ) + υ(Z + λ)) + 2υ·c·P_max and m = Σ|R_{T,s}|/P_min. A product with K is off by η‖v‖ in norm and
    by τ‖v‖ at a query, its terms are of size Z‖v‖, υ = `update` is the relative error of a term of an update, and
    ĉ = `multiplied` bounds the vectors that are multiplied: it is 1 where these are iterates.
    """
    least, most = scaling
    product = errors.operator * (1 + update) + update * (errors.size + ridge)
    slope = multiplied * product + 2 * update * most * centre
    constant = update * most * centre
    moved = response.iterate / least
    if moved * slope >= 0.5:
        return inf
    iterate = (1 + moved * constant) / (1 - moved * slope)
    residual = slope * iterate + constant
    predicted = errors.max_norm * response.prediction * residual / sqrt(least)
    return predicted + errors.entry * iterate


def update_round_off_bound(
    errors: HeadPairErrors,
    *,
    condition: float,
    least_scaling: float | None = None,
    looped: bool = False,
    chebyshev: bool = False,
) -> float:
    """υ = γ_56: the relative error of each term of a compiled update α' + ω(α − α' + P⁻¹r/c).

    With Jacobi's preconditioner, whose least entry is `least_scaling`, p roundings and 4f(2 + f)R²/P_min are
    added. A looped model has γ_112. Chebyshev's ω comes from a recurrence, which adds (√κ + 1)²/√κ times δ = 40u
    where a loop works it out, and δ = 7·2⁻⁵³ where the compiler does. It is ∞ where an error is too large for
    these formulas.
    """
    terms, extra = (2 if looped else 1) * (RECIPROCAL + 24), 0.0
    if least_scaling is not None:
        terms += (2 if looped else 1) * errors.features
        off = errors.feature_error * (2 + errors.feature_error) * errors.max_norm**2 / least_scaling
        if off > 0.25:
            return inf
        extra = 4 * off
    if chebyshev:
        own, taken = (
            (40 * errors.unit,) * 2 if looped else (11 * UNIT["float64"], 7 * UNIT["float64"])
        )
        if own * (condition + 1) > 0.25:
            return inf
        extra += 2 * divisor_error_bound(taken, condition)
    return accumulated(terms, errors.unit) + extra
