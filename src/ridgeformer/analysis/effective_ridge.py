"""The effective ridge: which λ is a layer's prediction nearest to?

    λ̂_ℓ = argmin over λ of E(f_ℓ − f_λ)²,    f_λ(x) = k(x)ᵀ(K + λI)⁻¹y

The distance is measured on a grid that is even in log λ, and the vertex of the parabola through its least three
values is λ̂; where the least value is at an end of the grid, λ̂ is undefined. A method that is stopped early acts
like a larger ridge, so that λ̂_ℓ falls from layer to layer, to the task's own λ at the end.

If prompts have different levels of noise, which they do not name, the best predictor infers the level, and a model
that does so follows the prompt: over levels v, log λ̂ has the slope 1 against log v. A model with one λ for all has
the slope 0. The best predictor itself is the control, since some levels cannot be told from so few supports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.layer_readouts import Read, halves, query_reader
from ridgeformer.analysis.systems import Eigensystem
from ridgeformer.models import Subject
from ridgeformer.statistics import Estimate, estimates_of, slope
from ridgeformer.tasks import GaussianLaw, GaussianProcess, Prompt
from ridgeformer.types import Refusal

DECADES = 3
"""How far the grid reaches on both sides of the task's ridge, in powers of ten."""
POINTS = 301


@dataclass(frozen=True)
class EffectiveRidge:
    """Entries are the layers, and last the model's own predictions."""

    ridge: float
    """The task's own λ."""
    found: tuple[Estimate, ...]
    """λ̂ of each layer."""
    left: tuple[Estimate, ...]
    """What is left of each layer at its λ̂: E(f_ℓ − f_λ̂)²/E f_ℓ². Where it is large, no λ describes the layer."""


def find_effective_ridge(
    subject: Subject, law: GaussianLaw, prompt: Prompt, *, seed: int
) -> EffectiveRidge:
    """λ̂ of a subject's layers, by readouts that were fitted on the first half of the prompts."""
    fitted, scored = halves(prompt)
    return ridge_of(query_reader(subject, fitted), law, scored, seed=seed)


def ridge_of(read: Read, law: GaussianLaw, prompt: Prompt, *, seed: int) -> EffectiveRidge:
    """λ̂ of anything that is read at these prompts."""
    grid = grid_around(law.ridge)
    layers = read(prompt)
    distance = distances(layers, law, prompt, grid)
    size = layers.square().mean((2, 3)).T[..., None]

    def least(means: Tensor) -> Tensor:
        return means[..., :-1].amin(-1) / means[..., -1]

    return EffectiveRidge(
        law.ridge,
        estimates_of(distance, lambda means: vertex(means, grid).exp(), seed),
        estimates_of(torch.cat([distance, size], dim=-1), least, seed),
    )


def grid_around(ridge: float) -> Float[Tensor, " grid"]:
    """Values of log λ."""
    wide = DECADES * log(10)
    return log(ridge) + torch.linspace(-wide, wide, POINTS, dtype=torch.float64)


def distances(
    layers: Float[Tensor, "layers batch q r"],
    law: GaussianLaw,
    prompt: Prompt,
    grid: Float[Tensor, " grid"],
) -> Float[Tensor, "batch layers grid"]:
    """E(f_ℓ − f_λ)² of each prompt, for each layer and each λ of the grid."""
    system = Eigensystem.of(prompt, law)
    # In the eigenbasis of A at the law's λ₀, the filter of the exact solution at λ is σ/(σ + λ − λ₀).
    moved = (system.values - law.ridge).clamp(min=0)[..., None] + grid.exp()
    exact = system.filtered(system.values[..., None] / moved).flatten(1, 2)  # [batch, q·r, grid]
    said = layers.flatten(2)
    size, own = said.square().mean(-1), exact.square().mean(1)
    cross = torch.einsum("lbn,bng->blg", said, exact) / exact.shape[1]
    return (size.T[..., None] + own[:, None] - 2 * cross).clamp(min=0)


def vertex(
    curves: Float[Tensor, "n layers grid"], grid: Float[Tensor, " grid"]
) -> Float[Tensor, "n layers"]:
    """log λ at the vertex of the parabola through the least value and its neighbours; NaN at an end."""
    least = curves.argmin(-1)
    inside = (least > 0) & (least < len(grid) - 1)
    at = least.clamp(1, len(grid) - 2)
    before, here, after = (curves.gather(-1, (at + i)[..., None])[..., 0] for i in (-1, 0, 1))
    bend = (before - 2 * here + after).clamp(min=1e-300)
    found = grid[at] + 0.5 * (before - after) / bend * (grid[1] - grid[0])
    return found.where(inside, torch.nan)


@dataclass(frozen=True)
class RidgeByNoise:
    """λ̂ of a model's own predictions at several levels of noise, beside that of the best predictor."""

    levels: tuple[float, ...]
    found: tuple[Estimate, ...]
    best: tuple[Estimate, ...]
    """The control: λ̂ of the best predictor, which infers the level from the prompt."""
    follows: Estimate
    """The slope of log λ̂ against the log of the level: 1 if λ̂ follows the prompt, 0 if it does not."""
    best_follows: Estimate


def ridge_by_noise(
    subject: Subject, task: GaussianProcess, *, prompts: int = 300, seed: int
) -> RidgeByNoise:
    """λ̂ at each noise level of the task, on so many prompts of each."""
    levels = task.noise_variances
    if len(set(levels)) < 2 or len(task.lengthscales) != 1:
        raise Refusal(
            "Whether λ̂ follows the noise needs a task with several noise_variances and one lengthscale; got "
            f"{levels} and {task.lengthscales}."
        )
    grid = grid_around(max(levels) ** 0.5 * min(levels) ** 0.5)
    parts = []
    for number, level in enumerate(levels):
        part = replace(task, noise_variances=(), noise_variance=level)
        prompt = part.draw(prompts, seed + number)
        both = torch.stack([subject.predict(prompt).double(), task.best(prompt)])
        parts.append(distances(both, part.law(), prompt, grid))
    # [batch, levels, model or best, grid]: prompts of different levels are resampled together.
    values = torch.stack(parts, 1)
    logs = torch.tensor(levels, dtype=torch.float64).log()

    def each(means: Tensor) -> Tensor:
        found = vertex(means.flatten(1, 2), grid).reshape(-1, len(levels), 2).mT
        slopes = torch.stack([rows_slope(logs, found[:, i]) for i in (0, 1)], 1)
        return torch.cat([found.exp().flatten(1), slopes], 1)

    n = len(levels)
    rows = estimates_of(values, each, seed)
    return RidgeByNoise(levels, rows[:n], rows[n : 2 * n], rows[-2], rows[-1])


def rows_slope(x: Tensor, y: Tensor) -> Tensor:
    """The slope of each row, NaN for rows that have one."""
    good = y.isfinite().all(1)
    found = torch.full_like(y[:, 0], torch.nan)
    if good.any():
        found[good] = slope(x, y[good])
    return found
