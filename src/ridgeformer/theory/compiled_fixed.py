"""Compiled methods with fixed coefficients in real arithmetic: what their few reciprocals cost."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.solvers import EagerMachine, Solver
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.theory.inexact import perturbed_prediction_bound
from ridgeformer.theory.loops import divisor_error_bound
from ridgeformer.theory.systems import gram, lengths


def divisor_error(error: float, condition: float) -> float:
    """δ_ω = δ/(1 − δ)·(1 + (√κ + 1)²/2√κ): how far a looped Chebyshev iteration is off in 1/ω."""
    if error == 0:
        return 0.0
    return (error + divisor_error_bound(error, condition)) / (1 - error)


def compiled_fixed_bound(
    solver: Solver,
    prompt: Prompt,
    alphas: Float[Tensor, "more batch k r"],
    predictions: Float[Tensor, "batch q r"],
    *,
    ridge: float,
    interval: Interval,
    kernel: Kernel | None = None,
    normaliser: float = 0.0,
    diagonal: float = 0.0,
    divisor: float = 0.0,
) -> Float[Tensor, "batch q r"]:
    """A bound on |f̂_T(x) − f_T(x)| for a model that holds these iterates α̂_0 … α̂_T and predictions f̂_T.

    The errors are those of its reciprocals: D of softmax attention, if P = I; the entries of P⁻¹; and the
    divisors of a looped Chebyshev iteration, tuned to the interval. Each is carried as an error of the
    products with A, by `perturbed_prediction_bound`; the query's D is off as well.
    """
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    inverse = machine.inverse_preconditioner(solver.precondition)
    alphas, matrix = alphas.double(), gram(prompt, kernel)
    products = matrix @ alphas[:-1]
    residuals = prompt.y.double() - products - ridge * alphas[:-1]
    size = lengths(products, 2) * (normaliser if solver.precondition == "none" else 0.0)
    size = size + diagonal * lengths(residuals, 2)
    if divisor:
        centre = sum(interval) / 2
        start = prompt.y.double() / centre * (1.0 if inverse is None else inverse)
        before = torch.cat([start[None], alphas[:-2]]) if len(alphas) > 2 else start[None]
        moved = (alphas[1:] - before) / (1.0 if inverse is None else inverse)
        error = divisor_error(divisor, interval[1] / interval[0])
        size = size + centre * error * lengths(moved, 2)
    carried = perturbed_prediction_bound(
        solver,
        prompt,
        ridge=ridge,
        steps=len(alphas) - 1,
        residual_error=1.0,
        kernel=kernel,
        interval=interval,
    )
    at_query = normaliser / (1 - normaliser) * predictions.double().abs()
    return carried[..., None] * size.amax(0)[:, None] + at_query
