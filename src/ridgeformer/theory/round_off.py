"""Round-off of compiled models with linear attention, in terms of the unit round-off u.

Every sum of n terms in floating point, in any order, is the exact sum of its terms each multiplied by
some 1 + θ with |θ| ≤ γ_n = nu/(1 − nu). A mat-vec head computes Φ(Φᵀα), with sums of k and of p
terms, and its error is at most γ_{k+p}·|Φ||Φ|ᵀ|α| in every entry. Zeros, flags and weights ±1 add
no round-off.
"""

from __future__ import annotations

from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers import Chebyshev, Solver
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.theory.inexact import residual_prediction_bound
from ridgeformer.theory.loops import divisor_error_bound
from ridgeformer.theory.sensitivity import semi_iteration_weights, sensitivity
from ridgeformer.theory.systems import gram, lengths
from ridgeformer.types import Refusal

UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}
"""The unit round-off u of each dtype: half the distance from 1 to the next larger number."""


def weight_error(interval: Interval) -> float:
    """v = 20(√κ + 1)²/√κ·2⁻⁵³: by how much a weight may be off besides u of itself, in units of ω or of ω/c.

    The compiler forms the weights of steps that are tuned to the interval in float64, κ = b/a. It is ∞ for κ
    beyond 10¹⁴, where Chebyshev's recurrence of ω might lose all digits.
    """
    condition = interval[1] / interval[0]
    return 40 * divisor_error_bound(UNIT["float64"], condition) if condition <= 1e14 else inf


def accumulated(terms: int, unit: float) -> float:
    """γ_n = nu/(1 − nu), and ∞ where nu ≥ 1, so that nothing is promised there."""
    return terms * unit / (1 - terms * unit) if terms * unit < 1 else inf


def residual_round_off_bound(
    solver: Solver,
    prompt: Prompt,
    alphas: Float[Tensor, "steps batch k r"],
    *,
    ridge: float,
    interval: Interval,
    unit: float,
    looped: bool = False,
) -> Float[Tensor, "less batch r"]:
    """The sum of `residual_round_off_terms`, for s = 0 … T − 1.

    In compiled gradient descent, Chebyshev iteration and heavy ball with the linear kernel, the round-off of
    step s has the effect of an error of at most this norm in the residual of that step.
    """
    terms = residual_round_off_terms(
        solver, prompt, alphas, ridge=ridge, interval=interval, unit=unit, looped=looped
    )
    return torch.stack(list(terms.values())).sum(0)


def residual_round_off_terms(
    solver: Solver,
    prompt: Prompt,
    alphas: Float[Tensor, "steps batch k r"],
    *,
    ridge: float,
    interval: Interval,
    unit: float,
    looped: bool = False,
) -> dict[str, Float[Tensor, "less batch r"]]:
    """γ_7‖y‖, (γ_7 + u)c‖α̂_{s−1}‖ + γ_7(c − λ)‖α̂_s‖, γ_{k+p+7}·‖ |Φ||Φ|ᵀ|α̂_s| ‖ and what weights are off by.

    Where a step reads no iterate but the last, the second is (uc + γ_7λ)‖α̂_s‖; in the last of the model's steps,
    which may be written where α̂_s was, it is otherwise (γ_7 + u)c(‖α̂_{s−1}‖ + ‖α̂_s‖). The method is tuned to [a, b],
    c = (a + b)/2, and α̂_s is the iterate that the model holds. The last is
    2v(‖y‖ + c‖α̂_{s−1}‖ + c‖α̂_s‖ + ‖ |Φ||Φ|ᵀ|α̂_s| ‖), v = `weight_error`.

    In a loop every pass of a method that remembers is like that last step, and what it carries for α̂_{s−1} is off
    by `carried_errors`, which adds (1 + γ_7 + u + 2v)c times that.
    """
    weights = semi_iteration_weights(solver, steps=len(alphas) - 1, tuned=interval)
    if looped and isinstance(solver, Chebyshev):
        raise Refusal(
            "A loop of Chebyshev iteration works out its weights in every pass, and its round-off is not counted "
            "step by step: leave `looped` out, or use gradient descent or heavy ball."
        )
    phi, held = prompt.phi.double().abs(), alphas.double()[:-1]
    few, many = accumulated(7, unit), accumulated(sum(phi.shape[1:]) + 7, unit)
    now, centre = lengths(held, 2), sum(interval) / 2
    before = torch.cat([torch.zeros_like(now[:1]), now[:-1]])
    in_place = (few + unit) * centre
    kept = [in_place if looped else few * (centre - ridge)] * (len(weights) - 1) + [in_place]
    in_updates = torch.stack(
        [
            in_place * before[s] + kept[s] * now[s]
            if remembers
            else (unit * centre + few * ridge) * now[s]
            for s, (_, remembers) in enumerate(weights)
        ]
    )
    targets = lengths(prompt.y.double(), 1).expand_as(now)
    products = lengths(phi @ (phi.mT @ held.abs()), 2)
    terms = {
        "targets": few * targets,
        "updates": in_updates,
        "mat-vecs": many * products,
        "weights": 2 * weight_error(interval) * (targets + centre * (before + now) + products),
    }
    if looped and any(remembers for _, remembers in weights):
        read = (1 + few + unit + 2 * weight_error(interval)) * centre
        terms["carried"] = read * carried_errors(held, unit)
    return terms


def carried_errors(
    held: Float[Tensor, "steps batch k r"], unit: float
) -> Float[Tensor, "steps batch r"]:
    """E_s with E_0 = 0 and E_{s+1} = u‖α̂_s‖ + u(1 + u)(‖α̂_s − α̂_{s−1}‖ + E_s), for the iterates α̂_s that are held.

    A loop carries α̂_{s−1} by adding the difference to what it carried before, and is off by at most E_s in norm.
    """
    now = lengths(held, 2)
    moved = lengths(torch.cat([held[:1], held.diff(dim=0)]), 2)
    errors = [torch.zeros_like(now[0])]
    for s in range(len(held) - 1):
        errors.append(unit * now[s] + unit * (1 + unit) * (moved[s] + errors[s]))
    return torch.stack(errors)


def fixed_round_off_bound(
    solver: Solver,
    prompt: Prompt,
    alphas: Float[Tensor, "steps batch k r"],
    *,
    ridge: float,
    interval: Interval,
    unit: float,
    looped: bool = False,
) -> Float[Tensor, "batch q r"]:
    """|f̂_T(x) − f_T(x)| ≤ |φ(x)|·e·C·Σ_{s<T} max_σ √(σ − λ)|R_{T,s}(σ)| + γ_{k+p}·|φ(x)|ᵀ|Φ|ᵀ|α̂_T|.

    e is the largest `residual_round_off_bound` of a step. f_T is the prediction of the recurrence
    in exact arithmetic, and f̂_T that of the model. The largest value over T is returned. C and R
    are those of `perturbed_prediction_bound`, and the absolute values in the last term are taken
    entry by entry.
    """
    error = residual_round_off_bound(
        solver, prompt, alphas, ridge=ridge, interval=interval, unit=unit, looped=looped
    ).amax(0)
    amplified = sensitivity(
        solver, steps=len(alphas) - 1, tuned=interval, spectrum=interval, offset=ridge
    ).prediction
    read = reading_round_off_bound(prompt, alphas, unit=unit).amax(0)
    height = lengths(prompt.phi_query.double(), 2)[:, :, None]
    return height * amplified * error[:, None, :] + read


def reading_round_off_bound(
    prompt: Prompt, alphas: Float[Tensor, "steps batch k r"], *, unit: float
) -> Float[Tensor, "steps batch q r"]:
    """|f̂_t(x) − k(x)ᵀα̂_t| ≤ γ_{k+p}·|φ(x)|ᵀ|Φ|ᵀ|α̂_t|: a prediction is one mat-vec more."""
    phi, at_query = prompt.phi.double().abs(), prompt.phi_query.double().abs()
    sums = accumulated(sum(phi.shape[1:]), unit)
    return sums * (at_query @ (phi.mT @ alphas.double().abs()))


def cg_round_off_bound(
    prompt: Prompt,
    alphas: Float[Tensor, "steps batch k r"],
    predictions: Float[Tensor, "steps batch q r"],
    *,
    ridge: float,
    unit: float,
) -> Float[Tensor, "steps batch q r"]:
    """|f̂_t(x) − f*(x)| ≤ ‖A⁻¹k(x)‖·‖y − Aα̂_t‖ + Σ_{s<t} u|f̂_s| + M(u‖α̂_s‖ + γ_{k+p+4}G_s), for every t.

    This holds for compiled CG with the linear kernel and linear attention, whatever values its
    scalar coefficients took. M = ‖ |Φ||φ(x)| ‖, and G_s = (‖α̂_{s+1} − α̂_s‖ + u‖α̂_s‖)/(1 − γ_2)
    bounds the step that was taken. The first term is due to the true residual of the coefficients
    that the model holds, the second to the round-off in its predictions, which are updated beside
    the coefficients.
    """
    alphas, residual = alphas.double(), prompt.y.double() - gram(prompt) @ alphas.double()
    residual = residual - ridge * alphas
    none = torch.zeros_like(lengths(residual, 2))
    gap = cg_gap_bound(prompt, alphas, predictions, unit=unit)
    return residual_prediction_bound(residual, none, prompt, ridge=ridge) + gap


def cg_gap_bound(
    prompt: Prompt,
    alphas: Float[Tensor, "steps batch k r"],
    predictions: Float[Tensor, "steps batch q r"],
    *,
    unit: float,
) -> Float[Tensor, "steps batch q r"]:
    """|f̂_t(x) − k(x)ᵀα̂_t| ≤ Σ_{s<t} u|f̂_s| + M(u‖α̂_s‖ + γ_{k+p+4}G_s), for every t.

    Compiled CG updates its predictions beside the coefficients, and this is how far the two may part.
    """
    phi, at_query = prompt.phi.double(), prompt.phi_query.double()
    alphas, predictions = alphas.double(), predictions.double()
    held = lengths(alphas, 2)[:-1, :, None, :]
    moved = lengths(alphas.diff(dim=0), 2)[:, :, None, :]
    taken = (moved + unit * held) / (1 - accumulated(2, unit))
    reach = lengths(at_query.abs() @ phi.abs().mT, 2)[:, :, None]
    sums = accumulated(sum(phi.shape[1:]) + 4, unit)
    lost = unit * predictions[:-1].abs() + reach * (unit * held + sums * taken)
    return torch.cat([torch.zeros_like(lost[:1]), lost]).cumsum(0)
