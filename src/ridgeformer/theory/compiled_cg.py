"""Compiled CG in real arithmetic: the errors of its reciprocals, and how far they carry predictions.

A compiled model computes every sum and product of CG's recurrence exactly. What errs are reciprocals,
which are off by at most a part δ that their table says: 1/pᵀAp, 1/ρ, and with softmax attention
the normaliser D = 1/w of every token, by which its products with K are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import acosh, cosh, sqrt

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
from ridgeformer.theory.inexact_scalars import CGPath, inexact_scalars_bound
from ridgeformer.theory.systems import cross, spectral

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


@dataclass(frozen=True)
class Drift:
    """How far products and preconditioner errors move a path whose coefficients are kept."""

    prediction: Tensor
    """A bound on the change of k(x)ᵀα_t, [T + 1, batch, q]."""
    length_error: Tensor
    memory_error: Tensor
    """Bounds on |ζ| and |η| of the path that makes no such errors, [T, batch]."""


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
    predictions. The terms are those of the query's normaliser, of the units, of the products with K and
    P⁻¹, and of the quotients.
    """
    at_query = errors.normaliser / (1 - errors.normaliser) * predictions.abs()
    moved = predictions.diff(dim=0).abs() / (1 - errors.normaliser)
    count = torch.arange(1, path.steps + 1, dtype=torch.float64)
    lost = (1 - errors.memory) ** -count - 1
    units = torch.cat([torch.zeros_like(moved[:1]), (lost[:, None, None] * moved).cumsum(0)])
    drift = product_drift(
        path, prompt, errors, ridge=ridge, kernel=kernel, precondition=precondition
    )
    quotients = inexact_scalars_bound(
        path,
        prompt,
        length_error=drift.length_error,
        memory_error=drift.memory_error,
        ridge=ridge,
        kernel=kernel,
    )
    return at_query + units + drift.prediction + quotients


def product_drift(
    path: CGPath,
    prompt: Prompt,
    errors: CGErrors,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Drift:
    """What errors of D and of P⁻¹ do to the path with the same coefficients.

    An error e_s of the product of step s, and one h_s of P⁻¹r_s, enter the recurrence linearly: r_t
    changes by Σ_s R^r_ts e_s + H^r_ts h_s, and so do p_t and α_t, with matrices that the recurrence gives.
    """
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    inverse = machine.inverse_preconditioner(precondition)
    system = machine.dense_system()
    scaling = torch.ones_like(system[..., 0]) if inverse is None else inverse[..., 0]
    gram = system - ridge * torch.eye(prompt.supports, dtype=torch.float64)
    moved = Moved(path, system, scaling, cross(prompt, kernel))
    top, largest = spectral(gram), scaling.amax(-1)
    length, memory, lowest, highest = [], [], [], []
    for s in range(path.steps):
        z = scaling * path.residual[s]
        moved.by(s, False, errors.diagonal * z.abs(), errors.diagonal * largest * moved.r[s])
        image = torch.einsum("bij,bj->bi", gram, path.direction[s])
        room = errors.normaliser * top * moved.p[s]
        moved.by(s, True, errors.normaliser * image.abs(), room)
        # ρ̂/ρ and x̂/x, of the model over those of the path
        a = moved.r_scaled[s] / path.rho[s].sqrt()
        lowest.append((1 - a).clamp(min=0) ** 2 * (1 - errors.diagonal))
        highest.append((1 + a) ** 2 * (1 + errors.diagonal))
        b = moved.p_energy[s] / path.curvature[s].sqrt()
        size = errors.normaliser * image.norm(dim=-1) + room
        crossed = (path.direction[s].norm(dim=-1) + moved.p[s]) * size / path.curvature[s]
        least, most = (1 - b).clamp(min=0) ** 2 - crossed, (1 + b) ** 2 + crossed
        above = (1 + errors.length) * highest[s] / least.clamp(min=0) - 1
        length.append(torch.maximum(above, 1 - (1 - errors.length) * lowest[s] / most))
        if s:
            over = (1 + errors.memory) * highest[s] / lowest[s - 1] - 1
            under = 1 - (1 - errors.memory) * lowest[s] / highest[s - 1]
            memory.append(torch.maximum(over, under))
    memory.append(torch.zeros_like(top))
    return Drift(torch.stack(moved.prediction), torch.stack(length), torch.stack(memory))


class Moved:
    """Adds up bounds on how far errors move predictions, r_t and p_t, the latter in two norms each."""

    def __init__(self, path: CGPath, system: Tensor, scaling: Tensor, weights: Tensor) -> None:
        self.path, self.system, self.scaling, self.weights = path, system, scaling, weights
        self.root: Tensor = torch.linalg.cholesky(system).mT
        none = torch.zeros(len(system), dtype=torch.float64)
        self.r, self.p, self.r_scaled, self.p_energy = ([none] * (path.steps + 1) for _ in range(4))
        self.prediction = [torch.zeros_like(weights[..., 0])] * (path.steps + 1)

    def by(self, s: int, of_product: bool, entries: Tensor, room: Tensor) -> None:
        """Adds an error of step s: its entries are at most these, up to a vector of norm `room`."""
        size = entries.norm(dim=-1) + room
        if not size.any():
            return
        found = responses(self.path, s, self.system, self.scaling, of_product=of_product)
        for t, (alpha, r, p) in found.items():
            read = self.weights @ alpha
            known = torch.einsum("bqk,bk->bq", read.abs(), entries)
            more = known + room[:, None] * read.norm(dim=-1)
            self.prediction[t] = self.prediction[t] + more
            for norms, matrix in (
                (self.r, r),
                (self.r_scaled, self.scaling.sqrt()[..., None] * r),
                (self.p, p),
                (self.p_energy, self.root @ p),
            ):
                norms[t] = norms[t] + spectral(matrix) * size


Responses = dict[int, tuple[Tensor, Tensor, Tensor]]
"""By the step t the matrices of α_t, r_t and p_t."""


def responses(
    path: CGPath, s: int, system: Tensor, scaling: Tensor, *, of_product: bool
) -> Responses:
    """How α_t, r_t and p_t change per unit of an error of the s-th product, or of P⁻¹r_s."""
    gamma, beta = (v[:, :, None, None] for v in (path.gamma, path.beta))
    zero = torch.zeros_like(system)
    eye = zero + torch.eye(system.shape[-1], dtype=torch.float64)
    alpha, r, p = zero, zero, zero if of_product else eye
    found: Responses = {} if of_product else {s: (alpha, r, p)}
    for t in range(s, path.steps):
        alpha, r = alpha + gamma[t] * p, r - gamma[t] * (system @ p)
        if of_product and t == s:
            r = r - gamma[t] * eye
        # No direction follows the last residual.
        p = scaling[..., None] * r + beta[t + 1] * p if t + 1 < path.steps else zero
        found[t + 1] = alpha, r, p
    return found
