"""The spectral filter of each layer: how much of each eigendirection has it learned?

In the eigenbasis of P⁻¹A the exact prediction is a sum of one component c_i per eigenvalue σ_i, and every
spectral method predicts Σ_i g(σ_i) c_i(x) with a filter g of its own (see `systems`). The readout f_ℓ of a
layer is regressed on these components:

    f_ℓ(x) ≈ Σ_j θ_j Σ_i b_j(σ_i) c_i(x),    g_ℓ(σ) = Σ_j θ_j b_j(σ)

b_j are the hat functions of some knots, so that g_ℓ is piecewise linear in log σ. Filters are fitted on the
prompts that readouts were fitted on, and scored on others by R² = 1 − E(f_ℓ − Σ g_ℓ c_i)²/E f_ℓ², which is not
clipped. A low R² says that the layer is no fixed filter in this basis, with as many knots: filters of high degree
oscillate, and need more of them.

At the supports the same is done with readouts of the residual y − f of the model's own fit, which is λα for
ridge regression. The curve is then h, how much of y is left in each eigendirection: λ/σ at the end. With a
preconditioner y itself is not among the functions of the system, and is one more regressor.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.layer_readouts import (
    PENALTY,
    Read,
    halves,
    query_reader,
    support_reader,
)
from ridgeformer.analysis.systems import Eigensystem, Place
from ridgeformer.models import Subject
from ridgeformer.solvers import Precondition
from ridgeformer.statistics import Estimate, estimates_of
from ridgeformer.tasks import GaussianLaw, Prompt

SILENT = 1e-12
"""A layer whose readout has less than this share of the last entry's variance says nothing."""


@dataclass(frozen=True)
class Filters:
    """The filters of all layers in one basis. Entries are the layers, and last the model itself."""

    precondition: Precondition
    at: Place
    knots: tuple[float, ...]
    """Eigenvalues of P⁻¹A."""
    curves: tuple[tuple[Estimate, ...], ...]
    """For each layer, g at the knots, or h at the supports."""
    r_squared: tuple[Estimate, ...]
    """For each layer, on held-out prompts; undefined where a layer says nothing."""


def find_filters(
    subject: Subject,
    law: GaussianLaw,
    prompt: Prompt,
    *,
    precondition: Precondition = "none",
    at: Place = "queries",
    knots: int = 10,
    seed: int,
) -> Filters:
    """The filters of a subject; half of the prompts fit readouts and filters, and half score them."""
    fitted, _ = halves(prompt)
    read = query_reader(subject, fitted) if at == "queries" else support_reader(subject, fitted)
    return filters_of(read, law, prompt, precondition=precondition, at=at, knots=knots, seed=seed)


def filters_of(
    read: Read,
    law: GaussianLaw,
    prompt: Prompt,
    *,
    precondition: Precondition = "none",
    at: Place = "queries",
    knots: int = 10,
    seed: int,
) -> Filters:
    """The filters of anything that is read at these prompts."""
    fitted, scored = halves(prompt)
    system = Eigensystem.of(fitted, law, precondition, at)
    places = choose_knots(system, knots)
    known = regressors(system, places, fitted, precondition, at)
    goal = read(fitted)
    # For each prompt the normal equations, of which the bootstrap needs only means.
    gram = torch.einsum("bnrj,bnrm->bjm", known, known)
    right = torch.einsum("bnrj,lbnr->bjl", known, goal)
    theta = solve(gram.mean(0), right.mean(0))

    new = regressors(
        Eigensystem.of(scored, law, precondition, at), places, scored, precondition, at
    )
    said = read(scored)
    left = said - torch.einsum("bnrj,jl->lbnr", new, theta)
    squares = torch.stack([left, said]).square().mean((3, 4)).permute(2, 0, 1)

    def r_squared(means: Tensor) -> Tensor:
        error, size = means[:, 0], means[:, 1]
        return (1 - error / size).where(size > SILENT * size[:, -1:], torch.nan)

    def curve(means: Tensor) -> Tensor:
        j = len(places)
        found = solve(means[..., : known.shape[-1]], means[..., known.shape[-1] :])
        return found[:, :j].mT.flatten(1)

    flat = estimates_of(torch.cat([gram, right], dim=-1), curve, seed)
    curves = tuple(flat[i : i + len(places)] for i in range(0, len(flat), len(places)))
    values: list[float] = places.exp().tolist()
    return Filters(precondition, at, tuple(values), curves, estimates_of(squares, r_squared, seed))


def choose_knots(system: Eigensystem, number: int) -> Float[Tensor, " knots"]:
    """Values of log σ: half of them by how large the components are, half by distance.

    They are quantiles of the even mixture of both distributions, with both ends; where one eigenvalue
    has several quantiles, it is one knot.
    """
    weights = system.left.square().mean(1) * system.right.square().mean(-1)
    places, order = system.values.log().flatten().sort()
    grid = torch.linspace(float(places[0]), float(places[-1]), 1000, dtype=places.dtype)
    below = torch.searchsorted(places, grid, right=True).clamp(min=1) - 1
    share = weights.flatten()[order].cumsum(0)[below] / weights.sum()
    even = torch.linspace(0, 1, len(grid), dtype=grid.dtype)
    wanted = torch.linspace(0, 1, number, dtype=grid.dtype)[1:-1]
    inner = torch.searchsorted((share + even) / 2, wanted)
    return grid[sorted({0, *inner.tolist(), len(grid) - 1})]


def hats(x: Float[Tensor, "batch k"], knots: Float[Tensor, " m"]) -> Float[Tensor, "batch k m"]:
    """The hat functions: 1 at their own knot, 0 at the others, linear between; constant outside."""
    x = x.clamp(float(knots[0]), float(knots[-1]))[..., None]
    width = knots.diff()
    rising = ((x - knots[:-1]) / width).clamp(0, 1)  # [batch, k, m − 1], from 0 to 1 in each gap
    ones = torch.ones_like(x)
    steps = torch.cat([ones, rising, torch.zeros_like(ones)], dim=-1)
    return steps[..., :-1] - steps[..., 1:]


def regressors(
    system: Eigensystem,
    knots: Tensor,
    prompt: Prompt,
    precondition: Precondition,
    at: Place,
) -> Float[Tensor, "batch n r m"]:
    """Σ_i b_j(σ_i) c_i for each hat function, and y besides where it is no function of the system."""
    known = system.filtered(hats(system.values.log(), knots))
    if at == "supports" and precondition != "none":
        known = torch.cat([known, prompt.y.double()[..., None]], dim=-1)
    return known


def solve(gram: Tensor, right: Tensor) -> Tensor:
    """The solution of the normal equations, with a small penalty on columns of size 1.

    Columns of nearly no size, as of eigenvalues that no query sees, count as small and get no weight.
    """
    size = gram.diagonal(dim1=-2, dim2=-1).sqrt()[..., None]
    size = size.clamp(min=1e-6 * float(size.max()))
    scaled = gram / (size * size.mT)
    scaled = scaled + PENALTY * torch.eye(scaled.shape[-1], dtype=gram.dtype)
    found: Tensor = torch.linalg.solve(scaled, right / size) / size
    return found
