"""Representation drift: how far the state of one and the same input moves from prompt to prompt.

Ridge regression on the states of a layer is a fixed predictor only if an input has the same state in every prompt. States of
n inputs, each in the same m prompts, have a variance within inputs W, over prompts, and one between inputs B, over the means of
inputs, less what those means owe to drift: 1/m of the part of W that inputs do not share, since what moves all of them alike leaves
their differences as they are. The **drift** of a layer is W/B.

What drift does to f* is bounded by the theorem on drift of a prediction (`theory.drift_prediction_bound`), and measured beside.

A remedy is a **frozen subspace**: directions in which inputs differ most, relative to how much the same input moves. They solve the
generalised eigenproblem S_B v = μ (S_W + γI) v, with a small γ. Where there are fewer states than dimensions, some directions happen
not to move in the states that fit, and would be taken for frozen; so only as many principal directions of the states are searched as half the
number of differences that tell S_W. The subspace is fitted on half of the inputs in half of the prompts, and scored on the other
prompts, for the same inputs and for others.
"""

from __future__ import annotations

from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers import krr
from ridgeformer.statistics import Estimate, estimate_of
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import generator_of, normal
from ridgeformer.theory import drift_prediction_bound
from ridgeformer.types import Refusal

SHRINKAGE = 1e-3
"""γ, as a part of the mean variance within inputs."""


def drift_by_layer(states: Float[Tensor, "layers n m p"], *, seed: int) -> tuple[Estimate, ...]:
    """W/B of each layer, with an interval over inputs; undefined where a layer does not tell inputs apart."""
    return tuple(drift_of(layer, seed=seed) for layer in states)


def drift_of(states: Float[Tensor, "n m p"], *, seed: int) -> Estimate:
    """W/B of the states of n inputs in m prompts."""
    n, m = check_states(states)
    values, own = states.double(), states.double().mean(1)
    moved = values - own[:, None]
    within = moved.square().sum((1, 2)) / (m - 1)
    alone = (moved - moved.mean(0)).square().sum((1, 2)) / (m - 1) * n / (n - 1)
    apart = (own - own.mean(0)).square().sum(1) * n / (n - 1)

    def ratio(means: Float[Tensor, "resamples 3"]) -> Tensor:
        between = means[:, 1] - means[:, 2] / m
        # A difference of round-off is none.
        there = between > 1e-9 * (means[:, 0] + float(values.square().mean()))
        return torch.where(there, means[:, 0] / between, torch.nan)

    return estimate_of(torch.stack([within, apart, alone], dim=1), ratio, seed)


def check_states(states: Float[Tensor, "n m p"]) -> tuple[int, int]:
    n, m, _ = states.shape
    if n < 3 or m < 2:
        raise Refusal(
            f"Drift needs the states of at least three inputs in at least two prompts; got {n} and {m}."
        )
    if not torch.isfinite(states).all():
        raise Refusal("Some states are not finite: leave out prompts that failed.")
    return n, m


@dataclass(frozen=True)
class DriftEffect:
    """What drift does to the predictions of ridge regression, relative to their mean size."""

    change: Estimate
    """The mean of |f − f̂| over queries."""
    bound: Estimate
    """What the theorem allows; the change is never larger."""


def effect_of_drift(
    prompt: Prompt, drifted: Prompt, *, ridge: float, kernel: Kernel, seed: int, together: int = 1
) -> DriftEffect:
    """The change of f* when the features of the same prompts are those of another reading, and its bound.

    Prompts that belong together, so many in a row, are resampled together.
    """
    if prompt.phi.shape != drifted.phi.shape or not torch.equal(prompt.y, drifted.y):
        raise Refusal("Drift is between two readings of the same prompts: give the same targets.")
    before, after = (krr(p, ridge=ridge, kernel=kernel) for p in (prompt, drifted))
    bound = drift_prediction_bound(prompt, drifted, ridge=ridge, kernel=kernel)
    parts = torch.stack([(before - after).abs(), bound, before.abs()]).mean((2, 3)).T
    parts = parts.reshape(-1, together, 3).mean(1)
    change, allowed = (
        estimate_of(parts, lambda means, n=n: means[:, n] / means[:, 2], seed)  # type: ignore[misc]
        for n in (0, 1)
    )
    return DriftEffect(change, allowed)


@dataclass(frozen=True, eq=False)
class FrozenSubspace:
    """Directions in which inputs differ most, relative to how much the same input moves."""

    basis: Float[Tensor, "p d"]
    """Orthonormal columns; `Linear(basis.mT)` is the kernel that sees features through them."""
    drift: Estimate
    """W/B in the subspace, for the inputs that fitted it, in other prompts."""
    other_inputs: Estimate
    """The same for inputs that did not fit it."""
    whole: Estimate
    """W/B of the whole states, for the same inputs and prompts as `other_inputs`."""
    principal: Estimate
    """The control: W/B in as many directions in which states vary most, found from the same states."""
    random: Estimate
    """A second control: W/B in as many random directions."""
    kept: float
    """The part of the variance between inputs, of those that did not fit it, that the subspace keeps."""
    principal_basis: Float[Tensor, "p d"]
    random_basis: Float[Tensor, "p d"]
    """Orthonormal columns of the two controls."""


def find_frozen_subspace(
    states: Float[Tensor, "n m p"], dimensions: int, *, seed: int
) -> FrozenSubspace:
    """Fits the subspace to half of the inputs in half of the prompts, and scores it on the other prompts."""
    n, m = check_states(states)
    if n < 6 or m < 8:
        raise Refusal(
            "A subspace is fitted on half of the inputs and prompts and scored on the others: give at least six inputs "
            f"and eight prompts; got {n} and {m}."
        )
    states = states.double()
    fitted, same, others = (
        states[: n // 2, : m // 2],
        states[: n // 2, m // 2 :],
        states[n // 2 :, m // 2 :],
    )
    most = min(states.shape[-1], len(fitted) - 1)
    if not 1 <= dimensions <= most:
        raise Refusal(
            f"{len(fitted)} inputs with {states.shape[-1]} features tell at most {most} directions apart; got "
            f"{dimensions}: choose fewer, or give more inputs."
        )
    basis = frozen_basis(fitted, dimensions)
    flat = (fitted - fitted.mean((0, 1))).flatten(0, 1)
    principal = torch.linalg.svd(flat, full_matrices=False).Vh[:dimensions].mT
    drawn = normal(generator_of(seed, 0xF0), states.shape[-1], dimensions)
    random: Tensor = torch.linalg.qr(drawn).Q
    means = others.mean(1) - others.mean((0, 1))
    kept = float((means @ basis).square().sum() / means.square().sum())
    return FrozenSubspace(
        basis,
        drift_of(same @ basis, seed=seed),
        drift_of(others @ basis, seed=seed),
        drift_of(others, seed=seed),
        drift_of(others @ principal, seed=seed),
        drift_of(others @ random, seed=seed),
        kept,
        principal,
        random,
    )


def frozen_basis(states: Float[Tensor, "n m p"], dimensions: int) -> Float[Tensor, "p d"]:
    """The leading directions of S_B v = μ (S_W + γI) v among principal directions of the states, made orthonormal."""
    n, m, p = states.shape
    searched = min(p, max(dimensions, n * (m - 1) // 2))
    flat = (states - states.mean((0, 1))).flatten(0, 1)
    principal = torch.linalg.svd(flat, full_matrices=False).Vh[:searched].mT
    seen = states @ principal
    own = seen.mean(1)
    moved = (seen - own[:, None]).flatten(0, 1)
    within = moved.mT @ moved / (n * (m - 1))
    apart = own - own.mean(0)
    between = apart.mT @ apart / (n - 1)
    # Without any drift all directions are frozen, and those between inputs come first.
    mean = float(within.diagonal().mean()) or float(between.diagonal().mean())
    system = within + SHRINKAGE * mean * torch.eye(len(within), dtype=within.dtype)
    last = len(within) - 1
    _, vectors = scipy.linalg.eigh(
        between.numpy(), system.numpy(), subset_by_index=(last - dimensions + 1, last)
    )
    basis: Tensor = torch.linalg.qr(principal @ torch.from_numpy(vectors).flip(1)).Q
    return basis
