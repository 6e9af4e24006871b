"""What the study runs beside compiled models: CG variants with fewer reductions, and CG in extended precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers import Solver
from ridgeformer.solvers.machine import Machine, Value
from ridgeformer.tasks import Prompt

RUNS = 8
"""Over so many runs a solver's own round-off is its largest; docs/format.md says why."""


class ChronopoulosGearState(NamedTuple):
    alpha: Value
    r: Value
    p: Value
    Ap: Value
    rho: Value | None
    curvature: Value | None
    """pᵀAp; like the others but for α, it is in units of `scale`."""
    scale: Value


@dataclass(frozen=True)
class ChronopoulosGear(Solver):
    """CG with pᵀAp = rᵀAr − β²·p₋ᵀAp₋ (Chronopoulos & Gear 1989), and on request A p = A r + β·A p₋.

    It is simulated only, and is not registered. Units are powers of two, which change no digit.
    """

    updated: bool = False
    """Whether A p follows its recurrence, too; else it is a product."""
    name = "chronopoulos-gear"

    def init(self, m: Machine) -> ChronopoulosGearState:
        nothing = m.zeros()
        return ChronopoulosGearState(nothing, m.target(), nothing, nothing, None, None, 1.0)

    def step(self, m: Machine, s: ChronopoulosGearState, t: int) -> ChronopoulosGearState:
        rho, p, Ap = m.dot(s.r, s.r), s.r, m.matvec(s.r)
        curvature = m.dot(s.r, Ap)
        if s.rho is not None:
            beta = rho * m.reciprocal(s.rho)
            curvature = curvature - beta * beta * s.curvature
            p = s.r + beta * s.p
            Ap = Ap + beta * s.Ap if self.updated else m.matvec(p)
        gamma = rho * m.reciprocal(curvature)
        c = m.unit(rho, lambda: (0.0, float("inf")))
        return ChronopoulosGearState(
            alpha=s.alpha + gamma * s.scale * p,
            r=c * (s.r - gamma * Ap),
            p=c * p,
            Ap=c * Ap,
            rho=c * c * rho,
            curvature=c * c * curvature,
            scale=s.scale * m.reciprocal(c),
        )


# ---------------------------------------------------------------------- in extended precision


def extended(prompt: Prompt) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ, y and the queries, in NumPy's longest floating-point numbers."""
    phi, y, query = (
        x.double().numpy().astype(np.longdouble) for x in (prompt.phi, prompt.y, prompt.phi_query)
    )
    return phi, y, query


def refined_krr(prompt: Prompt, ridge: float) -> np.ndarray:
    """KRR at the queries: a direct solve in float64, refined with residuals in extended precision."""
    phi, y, query = extended(prompt)
    transposed, wide = phi.swapaxes(1, 2), prompt.phi.double()
    system = wide @ wide.mT + ridge * torch.eye(prompt.supports, dtype=torch.float64)
    alpha = np.zeros_like(y)
    for _ in range(4):
        residual = y - phi @ (transposed @ alpha) - ridge * alpha
        alpha = alpha + torch.linalg.solve(system, torch.from_numpy(residual.astype(float))).numpy()
    predicted: np.ndarray = query @ (transposed @ alpha)
    return predicted


def extended_cg(prompt: Prompt, ridge: float, steps: int) -> np.ndarray:
    """Predictions of textbook CG after each step, [steps + 1, batch, q, r]."""
    phi, y, query = extended(prompt)
    transposed, alpha, r, p = phi.swapaxes(1, 2), np.zeros_like(y), y, y
    rho = (r * r).sum(1, keepdims=True)
    found = [alpha]
    for _ in range(steps):
        Ap = phi @ (transposed @ p) + ridge * p
        gamma = rho / (p * Ap).sum(1, keepdims=True)
        alpha, r = alpha + gamma * p, r - gamma * Ap
        before, rho = rho, (r * r).sum(1, keepdims=True)
        p = r + rho / before * p
        found.append(alpha)
    predictions: np.ndarray = query @ (transposed @ np.stack(found))
    return predictions


def distances(found: np.ndarray, exact: np.ndarray) -> Tensor:
    """The largest over queries and outputs."""
    return torch.from_numpy(np.abs(found - exact).max(axis=(-2, -1)).astype(float))


def own_round_off(
    run: Callable[[Prompt], Tensor], prompt: Prompt, exact: np.ndarray, seed: int
) -> Float[Tensor, "steps batch"]:
    """How far a solver strays up to each step: on the prompt, and on neighbours that rounding tells apart."""
    rng = np.random.default_rng(seed)
    prompts = [prompt, *(neighbour(prompt, rng) for _ in range(RUNS - 1))]
    apart = torch.stack([distances(run(one).numpy(), exact) for one in prompts])
    return apart.amax(0).cummax(0).values


def neighbour(prompt: Prompt, rng: np.random.Generator) -> Prompt:
    """The supports in another order, and every number kept or moved to the next one in its precision."""
    order = rng.permutation(prompt.supports)

    def moved(values: Tensor) -> Tensor:
        x = values.numpy()
        towards = np.choose(rng.integers(3, size=x.shape), [-np.inf, x, np.inf]).astype(x.dtype)
        return torch.from_numpy(np.nextafter(x, towards))

    return Prompt(moved(prompt.phi[:, order]), moved(prompt.y[:, order]), moved(prompt.phi_query))
