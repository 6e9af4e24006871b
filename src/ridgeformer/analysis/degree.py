"""How many products with A must a layer have taken? The degree that its error needs at least.

A method with fixed coefficients that has multiplied by the kernel matrix t times, the product with k(x) included,
predicts k(x)ᵀP^(−1/2)q(S)P^(−1/2)y for a polynomial q of degree t − 1 (see `systems`). The best of all these
polynomials for the task has the error

    e(t) = min over q of E(f_q − f*)²/E f*²,    deg q = t − 1

which bounds what any such method can reach: q is found by least squares in a Chebyshev basis on the interval of
the eigenvalues, on some prompts, and e(t) is measured on others. A layer whose readout has the error e_ℓ has at
least the degree d_ℓ with e(d_ℓ) = e_ℓ, where log e is interpolated between whole degrees.

**Products a layer.** One product a layer gives d_ℓ = ℓ at most; several products give a line that is steeper; a
method that squares, such as Newton's iteration, gives log₂ d_ℓ = a + bℓ. Both lines are fitted to the layers up to
the one where the error is least, without those whose degree is beyond all that were tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.layer_readouts import Read, halves, query_reader
from ridgeformer.analysis.systems import Eigensystem
from ridgeformer.models import Subject
from ridgeformer.solvers import Precondition, krr
from ridgeformer.statistics import UNDEFINED, Estimate, estimates_of, r_squared, slope
from ridgeformer.tasks import GaussianLaw, Prompt
from ridgeformer.types import Refusal

DEGREES = (1, 2, 3, 4, 6, 8, 12, 16, 24)
ANCHOR = 1e-4
"""The weight of (1 − g(σ))² between the ends of the spectrum, in units of E f*². Few prompts have eigenvalues near
the ends, where a polynomial of high degree would otherwise be free to be anything."""

Pace = Literal["one product a layer", "several products a layer", "doubling", "unresolved"]


@dataclass(frozen=True)
class Growth:
    """How the degree grows with the layers."""

    layers: int
    """How many layers the lines are fitted to."""
    products: Estimate
    """The slope of d_ℓ: products a layer."""
    doublings: Estimate
    """The slope of log₂ d_ℓ: doublings a layer."""
    r_squared_products: Estimate
    r_squared_doublings: Estimate
    pace: Pace
    """Doubling, if that line explains more and rises by more than 0.6 a layer: a polynomial of twice the degree
    need not be the best of its degree, and Richardson's are worth only √2 times as much. Else by the number
    of products, where one is up to 1.4. Unresolved where fewer than three layers can tell, or none grows."""


@dataclass(frozen=True)
class Degrees:
    """Errors are relative to E f*². Entries of layers end with the model's own predictions."""

    precondition: Precondition
    degrees: tuple[int, ...]
    best: tuple[Estimate, ...]
    """e(t) for these degrees."""
    errors: tuple[Estimate, ...]
    """For each layer, e_ℓ."""
    needed: tuple[Estimate, ...]
    """For each layer, d_ℓ: between 0, for an error above 1, and the largest of the degrees."""
    growth: Growth


def find_degrees(
    subject: Subject,
    law: GaussianLaw,
    prompt: Prompt,
    *,
    precondition: Precondition = "none",
    degrees: tuple[int, ...] = DEGREES,
    seed: int,
) -> Degrees:
    """The degrees of a subject's layers; half of the prompts fit readouts and polynomials."""
    read = query_reader(subject, halves(prompt)[0])
    return degrees_of(read, law, prompt, precondition=precondition, degrees=degrees, seed=seed)


def degrees_of(
    read: Read,
    law: GaussianLaw,
    prompt: Prompt,
    *,
    precondition: Precondition = "none",
    degrees: tuple[int, ...] = DEGREES,
    seed: int,
) -> Degrees:
    """The degrees of anything that is read at these prompts."""
    if list(degrees) != sorted(set(degrees)) or degrees[0] < 1:
        raise Refusal(f"Degrees must rise from 1 or more, got {degrees}.")
    scored = halves(prompt)[1]
    exact = krr(scored, ridge=law.ridge, kernel=law.kernel)
    best = best_polynomials(law, prompt, precondition, degrees) - exact
    layers = read(scored) - exact
    squares = torch.cat([best, layers, exact[None]]).square().mean((2, 3)).T
    many = len(degrees)

    def errors(means: Tensor) -> Tensor:
        return means[:, :-1] / means[:, -1:]

    def needed(means: Tensor) -> Tensor:
        relative = errors(means)
        return least_degree(relative[:, many:], relative[:, :many], degrees)

    found = estimates_of(squares, errors, seed)
    return Degrees(
        precondition,
        degrees,
        found[:many],
        found[many:],
        estimates_of(squares, needed, seed),
        growth_of(squares, needed, degrees[-1], seed),
    )


def best_polynomials(
    law: GaussianLaw, prompt: Prompt, precondition: Precondition, degrees: tuple[int, ...]
) -> Float[Tensor, "degrees batch q r"]:
    """What the best polynomial of each degree predicts for the second half of the prompts."""
    fitted, scored = (Eigensystem.of(part, law, precondition) for part in halves(prompt))
    low, high = fitted.values.aminmax()
    number = degrees[-1]
    goal = krr(halves(prompt)[0], ridge=law.ridge, kernel=law.kernel).flatten()
    columns = fitted.filtered(chebyshev(fitted.values, low, high, number)).flatten(0, 2)
    # The same filter must be near 1 between the eigenvalues that the fitted prompts happen to have.
    grid = torch.linspace(float(low), float(high), 10 * number, dtype=goal.dtype)
    weight = (ANCHOR * goal.square().sum() / len(grid)).sqrt()
    columns = torch.cat([columns, weight * chebyshev(grid[None], low, high, number)[0]])
    goal = torch.cat([goal, weight.expand(len(grid))])
    # The basis of a lower degree is the beginning of that of a higher one, and so are its factors.
    basis, factor = torch.linalg.qr(columns)
    weights = basis.mT @ goal
    new = scored.filtered(chebyshev(scored.values, low, high, number))
    found = []
    for t in degrees:
        q = torch.linalg.solve_triangular(factor[:t, :t], weights[:t, None], upper=True)
        found.append((new[..., :t] @ q)[..., 0])
    return torch.stack(found)


def chebyshev(
    values: Float[Tensor, "batch k"], low: Tensor, high: Tensor, number: int
) -> Float[Tensor, "batch k m"]:
    """σ·T_j for j = 0 … number − 1, with the interval [low, high] as [−1, 1].

    Beyond the interval, where T_j explodes, the filter keeps its value at the end.
    """
    values = values.clamp(low, high)
    x = ((2 * values - low - high) / (high - low)).clamp(-1, 1)  # round-off
    j = torch.arange(number, dtype=x.dtype)
    return values[..., None] * (j * x.arccos()[..., None]).cos()


def least_degree(
    errors: Float[Tensor, "n layers"], best: Float[Tensor, "n degrees"], degrees: tuple[int, ...]
) -> Float[Tensor, "n layers"]:
    """d with e(d) = error, log e being interpolated, and e(0) = 1; at most the last of the degrees."""
    start = best.new_zeros(len(best), 1)
    # A running minimum: a larger degree can do all that a smaller one does.
    curve = torch.cat([start, best.log()], dim=1).cummin(1).values
    at = torch.tensor((0, *degrees), dtype=best.dtype)
    level = errors.log()[:, :, None]
    upper, lower, wide = curve[:, None, :-1], curve[:, None, 1:], at.diff()
    share = ((upper - level) / (upper - lower).clamp(min=1e-12)).clamp(0, 1)
    return (share * wide).sum(-1)


def growth_of(squares: Tensor, needed: Callable[[Tensor], Tensor], most: int, seed: int) -> Growth:
    """Lines through d_ℓ and log₂ d_ℓ over the layers that can tell."""
    whole = needed(squares.mean(0, keepdim=True))[0, :-1]
    last = int(whole.argmax()) if len(whole) else -1  # the layer of the least error
    if last >= 0 and whole[last] >= most:  # beyond the largest degree
        last = int((whole < most).long().argmin()) - 1
    first = int((whole[: last + 1] < 0.5).sum())  # layers that say nothing yet
    count = last + 1 - first
    if count < 3:
        return Growth(count, UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED, "unresolved")
    layers = torch.arange(count, dtype=squares.dtype)

    def lines(means: Tensor) -> Tensor:
        line = needed(means)[:, first : last + 1].clamp(0.1, most)
        pair = (line, line.log2())
        return torch.stack(
            [slope(layers, pair[0]), slope(layers, pair[1])]
            + [r_squared(layers, each) for each in pair],
            dim=1,
        )

    products, doublings, straight, curved = estimates_of(squares, lines, seed)
    pace: Pace = "unresolved"
    if None not in (products.mean, doublings.mean, straight.mean, curved.mean):
        if curved.mean > straight.mean and doublings.mean > 0.6:  # type: ignore[operator]
            pace = "doubling"
        elif products.mean > 1.4:  # type: ignore[operator]
            pace = "several products a layer"
        elif products.mean > 0:  # type: ignore[operator]
            pace = "one product a layer"
    return Growth(count, products, doublings, straight, curved, pace)
