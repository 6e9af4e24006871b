"""Compiled CG in real arithmetic: the errors of its reciprocals, and how far they carry predictions.

A compiled model computes every sum and product of CG's recurrence exactly. What errs are reciprocals,
which are off by at most a part δ that their table says: 1/pᵀAp, 1/ρ, and with softmax attention
the normaliser D = 1/w of every token, by which its products with K are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import acosh, cosh, inf, sqrt

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.program.tables import HingeTable, first_guess, reciprocal_ratio
from ridgeformer.solvers import EagerMachine
from ridgeformer.solvers.cg_bounds import ROOM
from ridgeformer.solvers.machine import Interval, Precondition
from ridgeformer.tasks import Prompt
from ridgeformer.theory.inexact_cg import InexactCG
from ridgeformer.theory.inexact_scalars import (
    CGPath,
    defect_remainder,
    defect_responses,
    energy_prediction_bound,
    inexact_scalars_growth_bound,
    largest_sum,
    prediction_responses,
)
from ridgeformer.theory.systems import (
    cross,
    gram,
    query_weight,
    spectral,
    system_eigenvalues,
    target_energy,
)
from ridgeformer.theory.token_errors import TokenErrors, quotient
from ridgeformer.types import Refusal

COEFFICIENTS = 1e-17
"""What rounding the coefficients of a correction to float64 may add to the error of a reciprocal."""


@dataclass(frozen=True)
class CGErrors:
    """By which part the reciprocals of a compiled CG may be off."""

    length: float = 0.0
    """Of 1/pᵀAp, in γ."""
    memory: float = 0.0
    """Of 1/ρ, in β and in every change of unit."""
    normaliser: float = 0.0
    """Of D = 1/w, at every token; 0 with linear attention."""
    diagonal: float = 0.0
    """Of the entries of P⁻¹; 0 where P is none, or row sums, whose reciprocals attention shows."""


def table_error(lo: float, hi: float, ratio: float | None = None) -> float:
    """By which part the reciprocal of a number in [lo, hi] may be too small; it is never too large.

    This is for the coefficients of the theorem, of which a file has the nearest numbers of float64.

    ε is the largest |1 − xz| of the table's guess z, found exactly: between two knots z is linear, and
    1 − xz is largest at a knot or at the vertex of a parabola. The correction is tuned to ε₀, which the
    spacing of the knots gives, and leaves (T₆(e/ε₀) + 1)/(T₆(1/ε₀) + 1).
    """
    table, tuned = first_guess(lo, hi, ratio or reciprocal_ratio(lo, hi))
    found = max(guess_error(table) / tuned, 1.0)
    return float((cosh(6 * acosh(found)) + 1) / (cosh(6 * acosh(1 / tuned)) + 1))


def guess_error(table: HingeTable) -> float:
    """The largest |1 − xz| between the first knot and the last."""
    x = table.knots
    z = table(torch.from_numpy(x)).numpy()
    slope = np.diff(z) / np.diff(x)
    start = z[:-1] - slope * x[:-1]
    vertex = np.clip(-start / (2 * slope), x[:-1], x[1:])
    errors = np.concatenate([1 - x * z, 1 - vertex * (start + slope * vertex)])
    return float(np.abs(errors).max())


def compiled_cg_errors(
    interval: Interval,
    *,
    row_sums: Interval | None = None,
    diagonal: Interval | None = None,
    ratio: float | None = None,
) -> CGErrors:
    """The errors of CG's reciprocals, for eigenvalues of P⁻¹A within the interval.

    `row_sums` is the range of D with softmax attention, and `diagonal` that of P with Jacobi's
    preconditioner. `ratio` is that of the knots of the tables, if it is not the usual one.
    """
    least, most = interval

    def off(interval: Interval | None) -> float:
        return 0.0 if interval is None else table_error(*interval, ratio) + COEFFICIENTS

    return CGErrors(
        off((least / 2, 4 * most)),
        off((1 / ROOM, ROOM)),
        off(None if row_sums is None else (1 / row_sums[1], 1.0)),
        off(diagonal),
    )


def effective_scalar_error(errors: CGErrors, condition: float) -> float:
    """max(δ_γ, δ_β) + 3√κ·δ_D: an error of the quotients that has the effect of those of D as well."""
    return max(errors.length, errors.memory) + 3 * sqrt(condition) * errors.normaliser


def compiled_cg_bound(
    path: CGPath,
    prompt: Prompt,
    predictions: Float[Tensor, "more batch q"],
    *,
    errors: CGErrors,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, "more batch q"]:
    """A bound on |f̂_t(x) − f_t(x)|, t = 0 … T, of a compiled CG in real arithmetic.

    The path is that of the model's coefficients γ_t and β_t with exact products, and f̂_t are the model's
    predictions. The terms are those of the query's normaliser, of the units, of the quotients, and of the
    tokens' own reciprocals, D and P⁻¹.
    """
    at_query = errors.normaliser / (1 - errors.normaliser) * predictions.abs()
    moved = predictions.diff(dim=0).abs() / (1 - errors.normaliser)
    count = torch.arange(1, path.steps + 1, dtype=torch.float64)
    lost = (1 - errors.memory) ** -count - 1
    units = torch.cat([torch.zeros_like(moved[:1]), (lost[:, None, None] * moved).cumsum(0)])
    tokens = token_errors(path, prompt, errors, ridge, kernel, precondition)
    energy = energy_prediction_bound(path.residual, prompt, ridge=ridge, kernel=kernel)
    return at_query + units + token_bound(path, tokens, errors, energy)


def compiled_cg_growth_bound(
    prompt: Prompt,
    *,
    steps: int,
    errors: CGErrors,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "more batch q"]:
    """What `inexact_scalars_growth_bound` says for max(δ_γ, δ_β), and 2t^{3/2}δ_β·√(k(x)ᵀA⁻¹k(x))·‖α*‖_A.

    It bounds |f̂_t(x) − f_t(x)|, t = 0 … steps, before a path is known, with linear attention and P = I.
    """
    error = scalars_alone(errors)
    grown = inexact_scalars_growth_bound(
        prompt, steps=steps, error=error, ridge=ridge, kernel=kernel
    )
    t = torch.arange(steps + 1, dtype=torch.float64)[:, None, None]
    return grown + 2 * t**1.5 * errors.memory * prediction_energy(prompt, ridge, kernel)


def compiled_cg_descent_bound(
    prompt: Prompt,
    *,
    steps: int,
    errors: CGErrors,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "more batch q"]:
    """((1 − 0.7/κ)^{t/2} + 3(t + 1)δ_β)·√(k(x)ᵀA⁻¹k(x))·‖α*‖_A ≥ |f̂_t(x) − f*(x)|, t = 0 … steps.

    It holds with linear attention and P = I, under the condition of `largest_scalar_error`.
    """
    scalars_alone(errors)
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel)
    t = torch.arange(steps + 1, dtype=torch.float64)[:, None]
    falls = (1 - 0.7 * values[:, 0] / values[:, -1]) ** (t / 2)
    factor = falls + 3 * (t + 1) * errors.memory
    return factor[..., None] * prediction_energy(prompt, ridge, kernel)


def scalars_alone(errors: CGErrors) -> float:
    """max(δ_γ, δ_β), where nothing else errs."""
    if errors.normaliser or errors.diagonal:
        raise Refusal("This is for reciprocals of scalars: give `normaliser` and `diagonal` = 0.")
    return max(errors.length, errors.memory)


def prediction_energy(prompt: Prompt, ridge: float, kernel: Kernel | None) -> Tensor:
    """√(k(x)ᵀA⁻¹k(x))·‖α*‖_A, [batch, q]."""
    energy = target_energy(prompt, ridge=ridge, kernel=kernel)
    weight = query_weight(prompt, ridge=ridge, kernel=kernel)
    return energy * weight


def softmax_cg_growth_bound(
    prompt: Prompt,
    *,
    steps: int,
    errors: CGErrors,
    ridge: float,
    kernel: Kernel,
    precondition: Precondition = "none",
) -> Float[Tensor, "more batch q"]:
    """(F_t + δ_D(1 + F_t))·√(k(x)ᵀA⁻¹k(x))·‖α*‖_A ≥ |f̂_t(x) − f_t(x)|, t = 0 … steps, before a path is known.

    F_t is that of `InexactCG` for products that are off by δ_D‖K‖ and quotients by max(δ_γ, δ_β). It is
    infinite where the conditions on it fail. The preconditioner has no error: it is none, or row sums.
    """
    if errors.diagonal:
        raise Refusal("A preconditioner that errs is not covered: give `diagonal` = 0.")
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    top = spectral(gram(prompt, kernel))
    rows = []
    for (least, most), norm in zip(values[:, [0, -1]].tolist(), top.tolist(), strict=True):
        product = errors.normaliser * norm / ridge
        known = InexactCG(least, most, product, max(errors.length, errors.memory))
        found = known.energy_errors(steps)
        rows.append([0.0, *found, *[inf] * (steps - len(found))])
    grown = torch.tensor(rows, dtype=torch.float64).T
    factor = grown + errors.normaliser * (1 + grown)
    factor[0] = 0.0  # both are 0 before the first step
    return factor[..., None] * prediction_energy(prompt, ridge, kernel)


def token_bound(path: CGPath, tokens: TokenErrors, errors: CGErrors, energy: Tensor) -> Tensor:
    """A bound on k(x)ᵀΣγ_s p_s − f_t(x), where p_s are the model's, for t = 0 … T."""
    sizes, defects = tokens.sizes, defect_responses(path)
    slopes, rests = quotient_errors(tokens, errors)
    own = torch.tensor([errors.length, errors.memory], dtype=torch.float64)
    left = own.repeat_interleave(path.steps)[:, None] + rests
    remainder = defect_remainder(path, defects, tokens.weights, left + slopes.abs() @ sizes)
    bounds = [torch.zeros_like(energy[0])]
    for t in range(1, path.steps + 1):
        response = prediction_responses(path, defects, tokens.weights, t)
        direct = tokens.weights @ tokens.alpha[t]  # [batch, q, sources]
        through = torch.einsum("sbq,sbj->bqj", response, slopes)
        linear = (direct + through).abs() @ sizes + largest_sum(response, left[:, :, None])
        known = tokens.prediction[t] + linear + remainder[t]
        otherwise = tokens.prediction[t] + direct.abs() @ sizes + energy[t]
        bounds.append(torch.minimum(known, otherwise))
    return torch.stack(bounds)


def quotient_errors(tokens: TokenErrors, errors: CGErrors) -> tuple[Tensor, Tensor]:
    """What the tokens' errors do to every ζ and η: derivatives [2T, batch, sources], and the rest."""
    steps = range(tokens.path.steps)
    rho, curvature = ([f(t) for t in steps] for f in (tokens.rho, tokens.curvature))
    found = [quotient(rho[t], curvature[t], tokens.sizes, errors.length) for t in steps]
    found += [quotient(rho[t + 1], rho[t], tokens.sizes, errors.memory) for t in steps[:-1]]
    found.append((torch.zeros_like(found[0][0]), torch.zeros_like(found[0][1])))
    slopes, rests = (torch.stack(part) for part in zip(*found, strict=True))
    return slopes, rests


def token_responses(
    path: CGPath,
    prompt: Prompt,
    step: int,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, "batch q sources"]:
    """V: the derivative of f̂_t(x) with respect to the errors of D at the supports, and then of P⁻¹."""
    tokens = token_errors(path, prompt, CGErrors(), ridge, kernel, precondition)
    response = prediction_responses(path, defect_responses(path), tokens.weights, step)
    slopes = quotient_errors(tokens, CGErrors())[0]
    through: Tensor = torch.einsum("sbq,sbj->bqj", response, slopes)
    return tokens.weights @ tokens.alpha[step] + through


def token_errors(
    path: CGPath,
    prompt: Prompt,
    errors: CGErrors,
    ridge: float,
    kernel: Kernel | None,
    precondition: Precondition,
) -> TokenErrors:
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    inverse = machine.inverse_preconditioner(precondition)
    matrix = gram(prompt, kernel)
    scaling = torch.ones_like(matrix[..., 0]) if inverse is None else inverse[..., 0]
    sizes = {"normaliser": errors.normaliser, "diagonal": errors.diagonal}
    return TokenErrors(path, matrix, ridge, scaling, cross(prompt, kernel), **sizes)
