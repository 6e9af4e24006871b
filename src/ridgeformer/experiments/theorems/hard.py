"""Prompts on which a bound is met, and ratios on both sides of a statement."""

from __future__ import annotations

from math import pi

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.solvers import krr
from ridgeformer.tasks import Prompt
from ridgeformer.theory import query_weight, target_energy

NEAR = 0.01
"""How far to each side of a predicted failure a model is tried."""


def extrema(smallest: float, largest: float, steps: int) -> Tensor:
    """Where Chebyshev's polynomial of that degree is extreme on the interval, from the top down."""
    angles = pi * torch.arange(steps + 1, dtype=torch.float64) / steps
    return (largest + smallest) / 2 + (largest - smallest) / 2 * angles.cos()


def met(condition: float, steps: int) -> float:
    """1/(1 + c^−2t) with c = (√κ + 1)/(√κ − 1): the part of CG's bound that its worst spectrum meets."""
    root = condition**0.5
    return float(1 / (1 + ((root - 1) / (root + 1)) ** (2 * steps)))


NEARLY = 0.99
"""What is asked where a bound is met but for round-off, or where it is known how much of it is."""


def rotation(batch: int, size: int, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(batch, size, size, generator=generator, dtype=torch.float64)
    turned: Tensor = torch.linalg.qr(drawn).Q
    return turned


def prompt_of_modes(values: Tensor, y: Tensor, query: Tensor, batch: int, seed: int) -> Prompt:
    """K with these eigenvalues, y and k(x) with these coordinates in their modes, turned at random."""
    generator = torch.Generator().manual_seed(seed)
    turn, back = (rotation(batch, len(values), generator) for _ in range(2))
    root = values.sqrt()
    return Prompt(
        turn * root @ back.mT,
        turn @ y[:, None],
        (back @ (query / root)[:, None]).mT,
    )


def hard_for_krylov(smallest: float, largest: float, steps: int, batch: int, seed: int) -> Prompt:
    """K's eigenvalues in [smallest, largest], for which that many steps do as badly as they can.

    CG's and Chebyshev's, by the tightness of theorem 4; at every λ, since λ moves the spectrum as a
    whole. K must have full rank, so that the smallest eigenvalue of A exceeds λ.
    """
    assert smallest > 0, "the query has a part in the mode of the smallest eigenvalue of K"
    if steps == 1:
        return hard_for_fixed(smallest, largest, steps, batch, seed)
    values, y, query = hard_modes(smallest, largest, steps)
    return prompt_of_modes(values, y, query, batch, seed)


def hard_modes(smallest: float, largest: float, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues, and the target's and the query's coordinates in their modes."""
    y = torch.ones(steps + 1, dtype=torch.float64)
    y[[0, -1]] = 0.5**0.5
    signs = (-1.0) ** torch.arange(steps + 1, dtype=torch.float64)
    return extrema(smallest, largest, steps), y, signs * y


def hard_for_feature_space(
    smallest: float, largest: float, steps: int, batch: int, seed: int
) -> Prompt:
    """The same for CG in feature space: Φᵀy and φ(x) have the coordinates that y and k(x) have there."""
    values, y, query = hard_modes(smallest, largest, steps)
    root = values.sqrt()
    return prompt_of_modes(values, y / root, query * root, batch, seed)


def even_rotation(values: Tensor) -> Tensor:
    """An orthogonal Q for which Q·diag(values)·Qᵀ has all of its diagonal entries equal."""
    n, turned = len(values), values.diag()
    q, mean = torch.eye(n, dtype=values.dtype), values.mean()
    for i in range(n - 1):  # one rotation for each entry, in a plane with one on the other side
        off = turned.diagonal() - mean
        j = i + 1 + int((off[i + 1 :] * -off[i].sign()).argmax())
        a, b, d = off[i], turned[i, j], off[j]
        if abs(float(a)) < 1e-15 * float(mean):
            continue
        tangent = (-b + (b * b - a * d).sqrt()) / d  # a + 2bt + dt² = 0
        cosine = 1 / (1 + tangent**2).sqrt()
        plane = torch.eye(n, dtype=values.dtype)
        plane[i, i] = plane[j, j] = cosine
        plane[i, j], plane[j, i] = cosine * tangent, -cosine * tangent
        turned, q = plane @ turned @ plane.T, plane @ q
    return q


def hard_for_jacobi(
    smallest: float, largest: float, steps: int, scale: Tensor, ridge: float
) -> Prompt:
    """Badly scaled supports for which CG with Jacobi's preconditioner does as badly as it can.

    A = D·S·D with a diagonal D ≥ 1 and an S whose diagonal is constant, so that Jacobi leaves S; its
    eigenvalues, in [smallest, largest] with smallest ≥ λ, are the worst for so many steps.
    """
    values, y, query = hard_modes(smallest, largest, steps)
    turn, scale = even_rotation(values), scale[:, None]
    system = scale * (turn * values @ turn.T) * scale.T
    phi = torch.linalg.cholesky(system - ridge * torch.eye(len(values), dtype=torch.float64))
    target, seen = (scale * (turn @ v)[:, None] for v in (y, query))
    at_query = torch.linalg.solve_triangular(phi, seen, upper=False)
    return Prompt(phi[None], target[None], at_query.T[None])


def hard_for_outputs(smallest: float, largest: float, steps: int, outputs: int) -> Prompt:
    """The same for several outputs, each with supports of its own, so that they share nothing."""
    values, y, query = hard_modes(smallest, largest, steps)
    apart = torch.eye(outputs, dtype=torch.float64)
    phi = torch.kron(apart, values.sqrt().diag())
    queries = torch.kron(apart, (query / values.sqrt())[None])
    return Prompt(phi[None], torch.kron(apart, y[:, None])[None], queries[None])


def hard_for_fixed(smallest: float, largest: float, steps: int, batch: int, seed: int) -> Prompt:
    """Target and query in the two modes at the ends, which are the worst for fixed coefficients."""
    y = torch.ones(2, dtype=torch.float64)
    query = torch.tensor([(-1.0) ** steps, 1.0], dtype=torch.float64)
    ends = torch.tensor([largest, smallest], dtype=torch.float64)
    return prompt_of_modes(ends, y, query, batch, seed)


def scaled_error(model: CompiledModel, prompt: Prompt, ridge: float) -> np.ndarray:
    """|f_T − f*|/(√(k(x)ᵀA⁻¹k(x))·‖α*‖_A) of the model's predictions.

    The unit is the largest |f*| that k(x) and α* of these norms can give.
    """
    exact = krr(prompt, ridge=ridge)
    unit = (
        query_weight(prompt, ridge=ridge)[..., None] * target_energy(prompt, ridge=ridge)[:, None]
    )
    error: np.ndarray = ((model.predict(prompt) - exact).abs() / unit).numpy()
    return error


def promise(model: CompiledModel) -> float:
    """What the compiled model may differ from its solver by, relative to the largest prediction."""
    allowed = model.certificate.relative_error
    assert allowed is not None, "knobs are turned on models with exact products"
    return allowed


def threshold(below: np.ndarray, above: np.ndarray, tolerance: float) -> np.ndarray:
    """ε is kept on the safe side of the predicted failure, and missed on the other, in every case."""
    return np.append(below / tolerance, tolerance / above)
