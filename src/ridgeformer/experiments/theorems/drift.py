"""Drift: what moved features do to the kernel and to predictions, and where every term is met."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.experiments.theorems.base import WIDTH, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.width import KERNELS, MET, RIDGE, drawn
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.solvers import krr
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import lengths, spectral

SMALL = 1e-5
"""A move in whose limit a bound is met."""

RADIUS = 1.5
MAP = ((0.6, 0.8), (0.0, 0.5))


class FeatureDrift(Theorem):
    name = "feature-drift"
    group = WIDTH
    title = "Moved features move predictions no further than this"
    states = ("kernel-drift", "prediction-drift")
    measured = (
        "Features move by random steps of one length. Each constant of the kernels' drift, and each of the four "
        "terms of the drift of a prediction at three values of λ, is met by prompts of one or two supports, "
        "in the limit of small moves; there 0.999 must be reached."
    )
    see = "Largest movement of a prediction against the size of the drift, under the bound."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 8 if fast else 64
        generator = torch.Generator().manual_seed(seed)
        sizes = np.geomspace(1e-4, 1, 5 if fast else 13).tolist()

        def moved(x: Tensor, size: float) -> Tensor:
            noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            length: Tensor = noise.norm(dim=-1, keepdim=True)
            return x + size * noise / length

        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            for size in sizes:
                other = Prompt(moved(prompt.phi, size), prompt.y, moved(prompt.phi_query, size))
                change = (values(prompt, RIDGE, kernel) - values(other, RIDGE, kernel)).abs()
                bound = theory.drift_prediction_bound(prompt, other, ridge=RIDGE, kernel=kernel)
                m.at(name, size, change, bound, 1e-9, reach=1e-4)
                compare_kernels(m, prompt, other, kernel)
        for name, kernel, before, after in steepest():
            # With two supports at the distance ℓ no query is at that distance from both.
            compare_kernels(m, before, after, kernel, name, "k(x)" if name == "gaussian" else "")
        constants(m)
        for ridge in (0.1, 1.0, 10.0):
            for name, before, after in terms_met(ridge):
                compare_prediction(m, before, after, ridge, f"{name}, λ = {ridge:g}")
        settings = f"3 kernels, {len(sizes)} sizes of drift, {prompts} prompts of 16 supports; every case of equality"
        return m.outcome(settings, Axes("drift |φ − φ̂|", "|f − f̂|", log_x=True))


def values(prompt: Prompt, ridge: float, kernel: Kernel) -> Tensor:
    return krr(prompt, ridge=ridge, kernel=kernel)


def compare_kernels(
    m: Measurement, before: Prompt, after: Prompt, kernel: Kernel, name: str = "", skipped: str = ""
) -> None:
    """The kernel matrix and the kernel at the queries; a named case must be met by what is not skipped."""
    gram = spectral(theory.gram(before, kernel) - theory.gram(after, kernel))
    cross = lengths(theory.cross(before, kernel) - theory.cross(after, kernel), 2)
    for what, change, bound in (
        ("K", gram, theory.gram_drift_bound(before, after, kernel=kernel)),
        ("k(x)", cross, theory.cross_drift_bound(before, after, kernel=kernel)),
    ):
        part = f"{what}, {name}" if name and what not in skipped and float(bound.max()) > 0 else ""
        m.compare(change, bound, 1e-12, part=part, reach=MET)


def line(*positions: float) -> Tensor:
    return torch.tensor(positions, dtype=torch.float64)[None, :, None]


def steepest() -> Iterator[tuple[str, Kernel, Prompt, Prompt]]:
    """Two supports and a query on a line, moved where the kernel is steepest."""
    one, y = line(1.0), line(1.0, 1.0)
    more = 1 + SMALL
    for name, kernel in (("exponential", Exponential(2.0)), ("polynomial", Polynomial(3))):
        start, end = Prompt(line(1.0, 1.0), y, one), Prompt(line(more, more), y, more * one)
        yield name, kernel, start, end
    half, step = 0.35, SMALL / 2
    apart, further = line(-half, half), line(-half - step, half + step)
    yield "gaussian", Gaussian(0.7), Prompt(apart, y, line(half)), Prompt(further, y, line(half))
    # k(x): one support and a query at the distance ℓ, which part.
    start = Prompt(line(-half), one, line(half))
    yield (
        "gaussian, one support",
        Gaussian(0.7),
        start,
        Prompt(line(-half - step), one, line(half + step)),
    )
    pair = line(1.0, 2.0)
    yield "linear", Linear(), Prompt(pair, y, one), Prompt(1.5 * pair, y, one)
    yield "linear, the query moves", Linear(), Prompt(pair, y, one), Prompt(pair, y, 1.5 * one)
    less, shorter = Prompt(0.5 * pair, y, 0.5 * one), Prompt(0.0 * pair, y, one)
    yield "linear, both shrink", Linear(), Prompt(pair, y, one), less
    yield "linear, to nothing", Linear(), Prompt(pair, y, one), shorter
    yield "linear, both move", Linear(), Prompt(pair, y, one), Prompt(1.5 * pair, y, 1.5 * one)


def constants(m: Measurement) -> None:
    """The constant of each kernel on a ball, met at its surface or, by a Gaussian, at the distance ℓ."""
    projection = torch.tensor(MAP, dtype=torch.float64)
    top = torch.linalg.svd(projection).Vh[0][None]
    axis = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    kernels: list[tuple[str, Kernel, Tensor]] = [
        ("linear", Linear(), axis),
        ("exponential", Exponential(2.0, projection), top),
        ("polynomial", Polynomial(3), axis),
        ("gaussian", Gaussian(0.7), axis),
    ]
    for name, kernel, direction in kernels:
        if name == "gaussian":
            a, b = 0.35 * direction, -0.35 * direction
            a_moved, b_moved = (1 + SMALL) * a, (1 + SMALL) * b
        else:
            a = b = RADIUS * (1 - SMALL) * direction
            a_moved = b_moved = RADIUS * direction
        change = (kernel(a, b) - kernel(a_moved, b_moved)).abs()
        moves = (a - a_moved).norm() + (b - b_moved).norm()
        bound = theory.lipschitz_constant(kernel, RADIUS) * moves
        m.compare(change, bound, part=f"ball, {name}", reach=MET)


def terms_met(ridge: float) -> Iterator[tuple[str, Prompt, Prompt]]:
    """One support in two features, and a query: each of the four terms nearly alone, and met."""
    y, root = line(1.0), ridge**0.5

    def prompt(support: tuple[float, float], query: tuple[float, float]) -> Prompt:
        at = [torch.tensor([[x]], dtype=torch.float64) for x in (support, query)]
        return Prompt(at[0], y, at[1])

    tiny = 1e-3 * root
    # K alone moves, across the query, from next to nothing.
    yield "first, e", prompt((tiny, 0), (1, 0)), prompt((tiny, root), (1, 0))
    # A support that shrinks to next to nothing, and a query that comes from 0.
    yield "first, d", prompt((10 * root, 0), (0, 0)), prompt((tiny, 0), (1, 0))
    # K alone moves, a little, to the eigenvalue λ, where σ/(σ + λ)² is largest.
    yield "second, e", prompt((root, 0.01 * root), (1, 0)), prompt((root, 0), (1, 0))
    # The query alone moves.
    yield "second, d", prompt((2 * root, 0), (1, 0)), prompt((2 * root, 0), (1.5, 0))


def compare_prediction(
    m: Measurement, before: Prompt, after: Prompt, ridge: float, name: str
) -> None:
    """With ‖K − K̂‖ and ‖k(x) − k̂(x)‖ themselves for e and d."""
    kernel = Linear()
    change = (values(before, ridge, kernel) - values(after, ridge, kernel)).abs()
    bound = theory.drift_prediction_bound(
        before,
        after,
        ridge=ridge,
        in_gram=spectral(theory.gram(before) - theory.gram(after)),
        in_cross=lengths(theory.cross(before) - theory.cross(after), 2),
    )
    m.compare(change, bound, part=name, reach=MET)
