"""Are the coefficients of a method fixed, or do they depend on y? Additivity and homogeneity in y.

A method with fixed coefficients computes f(y) = k(x)ᵀq(A)y with the same q for every y: it is linear in y.
For the same inputs, two independent draws y₁ and y₂ of the targets and y₃ = (y₁ + y₂)/√2 have the same law,
so that nothing leaves the distribution of the prompts:

    additivity     E(f_ℓ(y₃) − (f_ℓ(y₁) + f_ℓ(y₂))/√2)² / Var f*
    homogeneity    E(f_ℓ(c·y) − c·f_ℓ(y))² / (c²·Var f*),    c = −1, ½, 2

Gradient descent, heavy ball, Chebyshev and Newton have neither defect. Conjugate gradients are homogeneous but
not additive. A model that saturates is neither.

**Resolution.** A model that predicts f* + e, where e has the relative size ε = E e²/Var f* and is unrelated
from one y to another, has the defect E(e₃ − (e₁ + e₂)/√2)²/Var f* = 2ε, since f* is linear in y. Smaller
defects than that of its final prediction may be due to its error, whatever the method is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from ridgeformer.analysis.layer_readouts import Read, halves, query_reader
from ridgeformer.models import Subject
from ridgeformer.statistics import Estimate, estimate_of, estimates_of
from ridgeformer.tasks import LearnableTask, Prompt, generator_of

FACTORS = (-1.0, 0.5, 2.0)


@dataclass(frozen=True)
class Additivity:
    """Defects relative to Var f*. Their entries are the layers, and last the model's own predictions."""

    additivity: tuple[Estimate, ...]
    homogeneity: dict[float, tuple[Estimate, ...]]
    """For each factor c."""
    error: Estimate
    """ε, the relative squared distance of the model's own predictions from the best predictor."""
    resolution: Estimate
    """2ε, the defect that this error allows."""


def find_additivity(
    subject: Subject, task: LearnableTask, *, prompts: int = 600, seed: int
) -> Additivity:
    """The defects of a subject on prompts of the task, by readouts that were fitted on other prompts."""
    fitted, scored = halves(task.draw(prompts, seed))
    return defects(query_reader(subject, fitted), task, scored, seed=seed)


def defects(read: Read, task: LearnableTask, prompt: Prompt, *, seed: int) -> Additivity:
    """The defects of anything that is read at these prompts; their targets are y₁, and y₂ is drawn."""
    first, best = read(prompt), task.best(prompt)
    other = task.relabel(prompt, generator_of(seed, 1))
    between = (first + read(other)) / sqrt(2)
    total = with_targets(prompt, (prompt.y + other.y) / sqrt(2))
    apart = {c: read(with_targets(prompt, c * prompt.y)) / c - first for c in FACTORS}
    error = relative((first[-1:] - best), best)
    return Additivity(
        relative_estimates(read(total) - between, best, seed),
        {c: relative_estimates(gap, best, seed) for c, gap in apart.items()},
        estimate_of(error, lambda m: m[:, 0] / m[:, -1], seed),
        estimate_of(error, lambda m: 2 * m[:, 0] / m[:, -1], seed),
    )


def with_targets(prompt: Prompt, y: Tensor) -> Prompt:
    return Prompt(prompt.phi, y, prompt.phi_query)


def relative(gap: Tensor, size: Tensor) -> Tensor:
    """For each prompt, the mean squares of each layer's gap and, in the last column, of `size`."""
    squares = torch.cat([gap, size[None]]).square().mean((2, 3))
    return squares.T


def relative_estimates(gap: Tensor, size: Tensor, seed: int) -> tuple[Estimate, ...]:
    """E gap²/E size² for each layer."""
    return estimates_of(relative(gap, size), lambda m: m[:, :-1] / m[:, -1:], seed)
