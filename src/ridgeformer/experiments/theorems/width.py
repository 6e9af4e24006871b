"""Width: what a kernel matrix of lower rank, moved features or a shorter spectrum cost."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.solvers import krr
from ridgeformer.tasks import KernelDraw, Prompt

RIDGE = 0.1
KERNELS: dict[str, Kernel] = {
    "linear": Linear(),
    "exponential": Exponential(2.0),
    "gaussian": Gaussian(1.0),
}


def drawn(kernel: Kernel, prompts: int, seed: int) -> Prompt:
    return KernelDraw(kernel=kernel, features=6, supports=16, scale=0.7).draw(prompts, seed)


class WidthRank(Theorem):
    name = "width-rank"
    title = "Truncating to rank m costs exactly σ/(λ(λ + σ))"
    states = ("width-rank",)
    measured = "The eigen-truncation of K to rank m must differ by exactly the lower bound."
    see = "Measured resolvent differences, which are the prediction to round-off; the bound by the sum of the tail is far above."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts = 8 if fast else 64
        collected, lines = [], []
        ranks = range(1, 15)
        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            whole = theory.gram(prompt, kernel)
            drawn_ranks, measured, loose = [], [], []
            for rank in ranks:
                low = theory.eigen_truncation(prompt, rank=rank, kernel=kernel)
                difference = theory.resolvent_difference(whole, low, ridge=RIDGE)
                bound = theory.rank_error(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                collected.append(ratios(difference.numpy(), bound.numpy(), 1e-4))
                tail = theory.tail_bound(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                if float(bound.max()) > 1e-4:  # where it is not round-off
                    drawn_ranks.append(rank)
                    measured.append(float(difference.max()))
                    loose.append(float(tail.max()))
            lines += [
                Line(name, drawn_ranks, measured),
                Line(f"{name}, tail bound", drawn_ranks, loose, bound=True),
            ]
        settings = f"3 kernels, 14 ranks, {prompts} prompts of 16 supports, λ = {RIDGE:g}"
        axes = Axes("rank m", "‖A⁻¹ − Â⁻¹‖₂")
        return Outcome(settings, np.concatenate(collected), lines, axes)


class EffectiveDimension(Theorem):
    name = "effective-dimension"
    title = "Beyond the effective dimension eigenvalues are small"
    states = ("effective-dimension",)
    measured = (
        "The eigenvalue after the first m is compared with λ·d_eff/(m + 1 − d_eff), where that is "
        "positive."
    )
    see = (
        "Eigenvalues after rank m under their bound, which is empty below the effective dimension."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts = 8 if fast else 64
        collected, lines = [], []
        ranks = range(1, 15)
        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            measured, bounds = {}, {}
            for rank in ranks:
                value = theory.eigenvalue_after(prompt, rank=rank, kernel=kernel)
                bound = theory.eigenvalue_bound(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                there = torch.isfinite(bound)  # beyond the effective dimension
                collected.append(ratios(value[there].numpy(), bound[there].numpy(), 1e-12))
                if float(value.max()) > 1e-12:  # where it is not round-off
                    measured[rank] = float(value.max())
                if there.all():
                    bounds[rank] = float(bound.max())
            lines.append(Line(name, list(measured), list(measured.values())))
            lines.append(Line(f"{name}, bound", list(bounds), list(bounds.values()), bound=True))
        settings = f"3 kernels, 14 ranks, {prompts} prompts of 16 supports, λ = {RIDGE:g}"
        return Outcome(settings, np.concatenate(collected), lines, Axes("rank m", "σ_{m+1}"))


class QueryError(Theorem):
    name = "query-error"
    title = "The query's own error is not negligible"
    states = ("query-error",)
    measured = "Kernels truncated to seven ranks, and both cases of equality."
    see = "Errors of truncated kernels are below the bound; in the last case they are equal to it."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts = 8 if fast else 64
        kernel = Gaussian(1.0)
        prompt = drawn(kernel, prompts, seed)
        whole, at_queries = theory.gram(prompt, kernel), theory.cross(prompt, kernel)
        exact = krr(prompt, ridge=RIDGE, kernel=kernel)
        values, vectors = torch.linalg.eigh(whole)
        collected, measured, bounds = [], [], []
        cases = []
        for rank in range(2, 15, 2):
            kept = torch.arange(prompt.supports) >= prompt.supports - rank
            projection = (vectors * kept) @ vectors.mT
            cases.append(
                (
                    (vectors * (values.clamp(min=0) * kept)[:, None, :]) @ vectors.mT,
                    at_queries @ projection,
                )
            )
        alpha = torch.linalg.solve(whole + RIDGE * torch.eye(prompt.supports).double(), prompt.y)
        cases.append((whole, at_queries + 0.1 * alpha.mT / alpha.norm(dim=1, keepdim=True)))
        for low, moved in cases:
            error = (theory.approximate_prediction(prompt, low, moved, ridge=RIDGE) - exact).abs()
            bound = theory.query_error_bound(prompt, low, moved, ridge=RIDGE, kernel=kernel)
            collected.append(ratios(error.numpy(), bound.numpy(), 1e-9))
            measured.append(float(error.max()))
            bounds.append(float(bound.max()))
        collected.append(first_term(prompts, seed))
        x = [*(f"rank {m}" for m in range(2, 15, 2)), "only k(x) moves"]
        lines = [Line("measured", x, measured), Line("bound", x, bounds, bound=True)]
        settings = f"7 ranks and both cases of equality, {prompts} prompts of 16 supports"
        return Outcome(
            settings, np.concatenate(collected), lines, Axes("", "|f − f̂|", bars="beside")
        )


def first_term(prompts: int, seed: int) -> np.ndarray:
    """k(x) and y along the first mode that truncation drops, and k(x) seen as it is."""
    prompt, collected = drawn(Linear(), prompts, seed), []
    vectors = torch.linalg.eigh(theory.gram(prompt)).eigenvectors.flip(-1)
    for rank in range(1, 6):
        mode = vectors[:, :, rank, None]
        along = Prompt(prompt.phi, mode, (prompt.phi.mT @ mode).mT)
        low = theory.eigen_truncation(along, rank=rank)
        other = theory.approximate_prediction(along, low, theory.cross(along), ridge=RIDGE)
        error = (other - krr(along, ridge=RIDGE)).abs()
        bound = theory.query_error_bound(along, low, theory.cross(along), ridge=RIDGE)
        collected.append(ratios(error.numpy(), bound.numpy(), 0.0))
    return np.concatenate(collected)


class FeatureDrift(Theorem):
    name = "feature-drift"
    title = "Moved features move predictions no further than this"
    states = ("kernel-drift", "prediction-drift")
    measured = (
        "Features move by random steps of one length. Of one support, a query that moves alone meets "
        "the bound with the linear kernel, and with the others in the limit of small moves."
    )
    see = "Largest movement of a prediction against the size of the drift, under the bound."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts = 8 if fast else 64
        generator = torch.Generator().manual_seed(seed)
        sizes = np.geomspace(1e-4, 1, 5 if fast else 13)
        collected, lines = [], []
        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            exact = krr(prompt, ridge=RIDGE, kernel=kernel)
            measured, bounds = [], []
            for size in sizes:

                def moved(x: torch.Tensor, size: float = float(size)) -> torch.Tensor:
                    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
                    length: torch.Tensor = noise.norm(dim=-1, keepdim=True)
                    return x + size * noise / length

                other = Prompt(moved(prompt.phi), prompt.y, moved(prompt.phi_query))
                error = (krr(other, ridge=RIDGE, kernel=kernel) - exact).abs()
                bound = theory.drift_prediction_bound(prompt, other, ridge=RIDGE, kernel=kernel)
                collected.append(ratios(error.numpy(), bound.numpy(), 1e-9))
                measured.append(float(error.max()))
                bounds.append(float(bound.max()))
            lines += [
                Line(name, sizes.tolist(), measured),
                Line(f"{name}, bound", sizes.tolist(), bounds, bound=True),
            ]
        collected.append(lone_query())
        settings = (
            f"3 kernels, {len(sizes)} sizes of drift, {prompts} prompts of 16 supports; one support and a "
            "query that moves alone"
        )
        axes = Axes("drift |φ − φ̂|", "|f − f̂|", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


LONE = {
    "linear": (2.4, 1.0, 1.5),
    "exponential": (1.0, 1.0, 1.0001),
    "gaussian": (0.0, 1.0, 1.0001),
}
"""Where the one support is, and from where to where the query moves: where the kernel is steepest."""


def lone_query() -> np.ndarray:
    collected = []
    for name, kernel in KERNELS.items():
        support, before, after = torch.tensor(LONE[name], dtype=torch.float64)[:, None, None, None]
        y = torch.ones(1, 1, 1, dtype=torch.float64)
        first, second = Prompt(support, y, before), Prompt(support, y, after)
        error = (
            krr(first, ridge=RIDGE, kernel=kernel) - krr(second, ridge=RIDGE, kernel=kernel)
        ).abs()
        bound = theory.drift_prediction_bound(first, second, ridge=RIDGE, kernel=kernel)
        collected.append(ratios(error.numpy(), bound.numpy(), 0.0))
    return np.concatenate(collected)
