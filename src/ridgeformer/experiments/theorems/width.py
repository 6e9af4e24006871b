"""Width: what a kernel matrix of lower rank, moved features or a shorter spectrum cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.experiments.theorems.base import WIDTH, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.experiments.theorems.sizes import same
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.solvers import krr, krr_coefficients
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.theory.systems import spectral

RIDGE, SUPPORTS = 0.1, 16
RANKS = range(SUPPORTS)
MET = 0.999
"""What a case of equality must reach."""
KERNELS: dict[str, Kernel] = {
    "linear": Linear(),
    "exponential": Exponential(2.0),
    "gaussian": Gaussian(1.0),
}


def drawn(kernel: Kernel, prompts: int, seed: int) -> Prompt:
    return KernelDraw(kernel=kernel, features=6, supports=SUPPORTS, scale=0.7).draw(prompts, seed)


class WidthRank(Theorem):
    name = "width-rank"
    group = WIDTH
    title = "Truncating to rank m costs exactly σ/(λ(λ + σ))"
    states = ("width-rank",)
    measured = "The eigen-truncation of K to rank m, and its resolvent, must differ by exactly the lower bounds."
    see = "Measured resolvent differences, which are the prediction to round-off; the bound by the sum of the tail is far above."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 8 if fast else 64
        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            whole = theory.gram(prompt, kernel)
            for rank in RANKS:
                low = theory.eigen_truncation(prompt, rank=rank, kernel=kernel)
                difference = theory.resolvent_difference(whole, low, ridge=RIDGE)
                bound = theory.rank_error(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                m.compare(difference, bound, 1e-4)
                after = theory.eigenvalue_after(prompt, rank=rank, kernel=kernel)
                m.compare(spectral(whole - low), after, 1e-4)
                if float(bound.max()) > 1e-4:  # where it is not round-off
                    m.draw(name, rank, difference)
                    tail = theory.tail_bound(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                    m.draw_bound(name, rank, tail, "tail bound")
        return m.outcome(of_kernels_and_ranks(prompts), Axes("rank m", "‖A⁻¹ − Â⁻¹‖₂"))


def of_kernels_and_ranks(prompts: int) -> str:
    return f"3 kernels, {len(RANKS)} ranks, {prompts} prompts of {SUPPORTS} supports, λ = {RIDGE:g}"


class WidthBounds(Theorem):
    name = "width-bounds"
    group = WIDTH
    title = "No matrix of rank m is nearer to K, and every one keeps the bound"
    states = ("width-rank",)
    measured = (
        "Columns of K (Nyström's approximation), the last eigenvectors in place of the first, and random matrices of "
        "rank m: ‖A⁻¹ − Â⁻¹‖ against e/(λ(λ + e)), and e and ‖A⁻¹ − Â⁻¹‖ against the least that is possible. Both "
        "kinds of equality that are not truncations must reach 0.999."
    )
    see = "Resolvent differences of three approximations of the Gaussian kernel, all above the least that rank m allows."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 8 if fast else 64
        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            whole = theory.gram(prompt, kernel)
            for rank in RANKS:
                least = theory.eigenvalue_after(prompt, rank=rank, kernel=kernel)
                lost = theory.rank_error(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                for called, low in approximations(whole, rank, seed).items():
                    difference = compare_resolvents(m, whole, low, called if rank else "")
                    m.compare(least, spectral(whole - low), 1e-9)
                    m.compare(lost, difference, 1e-9)
                    if name == "gaussian" and rank:
                        m.draw(called, rank, difference)
                if name == "gaussian" and rank:
                    m.draw_bound("", rank, lost, "least possible")
        for called, given, low in met_by_others(prompts, seed):
            compare_resolvents(m, given, low, called, reach=MET)
        settings = of_kernels_and_ranks(prompts) + "; 3 approximations, and both cases of equality"
        return m.outcome(settings, Axes("rank m", "‖A⁻¹ − Â⁻¹‖₂"))


def compare_resolvents(
    m: Measurement, whole: Tensor, low: Tensor, part: str, reach: float | None = None
) -> Tensor:
    """Compares ‖A⁻¹ − Â⁻¹‖, which is returned, with e/(λ(λ + e))."""
    difference = theory.resolvent_difference(whole, low, ridge=RIDGE)
    bound = theory.resolvent_bound(spectral(whole - low), ridge=RIDGE)
    m.compare(difference, bound, 1e-9, part=part, reach=reach)
    return difference


def approximations(whole: Tensor, rank: int, seed: int) -> dict[str, Tensor]:
    """Positive semi-definite matrices of that rank, none of them the eigen-truncation."""
    generator = torch.Generator().manual_seed(seed + rank)
    factor = torch.randn(whole.shape[0], SUPPORTS, rank, generator=generator, dtype=whole.dtype)
    columns = whole[:, :, :rank]
    inverse = torch.linalg.pinv(whole[:, :rank, :rank], rtol=1e-10, hermitian=True)
    values, vectors = torch.linalg.eigh(whole)
    last = vectors[:, :, :rank] * values[:, None, :rank].clamp(min=0) @ vectors[:, :, :rank].mT
    return {
        "columns of K": columns @ inverse @ columns.mT,
        "last eigenvectors": last,
        "random": factor @ factor.mT,
    }


def met_by_others(prompts: int, seed: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """A v with K̂v = 0 and Kv = ev, and one with Kv = 0 and K̂v = ev, beside smaller errors elsewhere."""
    whole = theory.gram(drawn(Linear(), prompts, seed))  # of rank 6
    values, vectors = torch.linalg.eigh(whole)
    first, none = vectors[..., -1:], vectors[..., :1]
    top = values[:, -1, None, None]
    yield "K̂v = 0", whole, 0.9 * (whole - top * first @ first.mT)
    yield "Kv = 0", whole, 0.9 * whole + top * none @ none.mT


class EffectiveDimension(Theorem):
    name = "effective-dimension"
    group = WIDTH
    title = "Beyond the effective dimension eigenvalues are small"
    states = ("effective-dimension",)
    measured = (
        "The eigenvalue after the first m is compared with λ·d_eff/(m + 1 − d_eff), where that is "
        "positive, and λ‖A⁻¹ − Â⁻¹‖ of eigen-truncation with d_eff/(m + 1). At the sufficient width for δ they are "
        "compared with δλ and δ/(1 + δ). m + 1 equal eigenvalues must meet all four, and the sufficient width must be m."
    )
    see = (
        "Eigenvalues after rank m under their bound, which is empty below the effective dimension."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 8 if fast else 64
        for name, kernel in KERNELS.items():
            prompt = drawn(kernel, prompts, seed)
            for rank in RANKS:
                value = theory.eigenvalue_after(prompt, rank=rank, kernel=kernel)
                bound = theory.eigenvalue_bound(prompt, rank=rank, ridge=RIDGE, kernel=kernel)
                there = torch.isfinite(bound)  # beyond the effective dimension
                m.compare(value[there], bound[there], 1e-12)
                relative = theory.relative_error_bound(
                    prompt, rank=rank, ridge=RIDGE, kernel=kernel
                )
                lost = truncated_away(prompt, rank, RIDGE, kernel)
                m.compare(lost, relative, 1e-12)
                if float(value.max()) > 1e-12:  # where it is not round-off
                    m.draw(name, rank, value)
                if there.all():
                    m.draw_bound(name, rank, bound)
            for delta in (0.3, 1.0, 4.0):
                at_sufficient_width(m, prompt, kernel, delta)
        equal_eigenvalues(m)
        return m.outcome(of_kernels_and_ranks(prompts), Axes("rank m", "σ_{m+1}"))


def truncated_away(prompt: Prompt, rank: int, ridge: float, kernel: Kernel) -> Tensor:
    """λ‖A⁻¹ − Â⁻¹‖ of eigen-truncation, from the two matrices."""
    low = theory.eigen_truncation(prompt, rank=rank, kernel=kernel)
    return ridge * theory.resolvent_difference(theory.gram(prompt, kernel), low, ridge=ridge)


def at_sufficient_width(m: Measurement, prompt: Prompt, kernel: Kernel, delta: float) -> None:
    """σ_{m+1} against δλ and λ‖A⁻¹ − Â⁻¹‖ against δ/(1 + δ), each prompt with its own m."""
    widths = theory.sufficient_width(prompt, tolerance=delta, ridge=RIDGE, kernel=kernel)
    for at, rank in enumerate(widths.tolist()):
        one = prompt[at : at + 1]
        value = theory.eigenvalue_after(one, rank=rank, kernel=kernel)
        m.compare(value, delta * RIDGE, 1e-12)
        m.compare(truncated_away(one, rank, RIDGE, kernel), delta / (1 + delta), 1e-12)


def equal_eigenvalues(m: Measurement) -> None:
    """m + 1 equal eigenvalues and no other: every form of the theorem is met, at every λ."""
    for kept, ridge in product(range(1, 6), (0.1, 1.0, 10.0)):
        phi = torch.zeros(1, 8, 8, dtype=torch.float64)
        phi[0, range(kept), range(kept)] = 2.0
        prompt = Prompt(phi, phi[..., :1], phi)
        rank = kept - 1
        value = theory.eigenvalue_after(prompt, rank=rank)
        most = theory.eigenvalue_bound(prompt, rank=rank, ridge=ridge)
        lost = truncated_away(prompt, rank, ridge, Linear())
        share = theory.relative_error_bound(prompt, rank=rank, ridge=ridge)
        m.compare(value, most, part=f"σ, m = {rank}", reach=MET)
        m.compare(lost, share, part=f"λ‖A⁻¹ − Â⁻¹‖, m = {rank}", reach=MET)
        # With δ = 4/λ this is σ = δλ, and the width that is asked for is m itself.
        delta = 4 / ridge * (1 + 1e-9)
        asked = theory.sufficient_width(prompt, tolerance=delta, ridge=ridge)
        m.compare(same(int(asked), rank), 1.0, part="width", reach=MET)
        m.compare(value, delta * ridge, part="σ by δ", reach=MET)
        m.compare(lost, delta / (1 + delta), part="λ‖A⁻¹ − Â⁻¹‖ by δ", reach=MET)


class QueryError(Theorem):
    name = "query-error"
    group = WIDTH
    title = "The query's own error is not negligible"
    states = ("query-error",)
    measured = "Kernels truncated to seven ranks, and both cases of equality."
    see = "Errors of truncated kernels are below the bound; in the last case they are equal to it."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts, kernel = Measurement(), 8 if fast else 64, Gaussian(1.0)
        prompt = drawn(kernel, prompts, seed)
        whole, at_queries = theory.gram(prompt, kernel), theory.cross(prompt, kernel)
        values, vectors = torch.linalg.eigh(whole)
        cases: dict[str, tuple[Tensor, Tensor]] = {}
        for rank in range(2, 15, 2):
            kept = torch.arange(prompt.supports) >= prompt.supports - rank
            low = (vectors * (values.clamp(min=0) * kept)[:, None, :]) @ vectors.mT
            cases[f"rank {rank}"] = low, at_queries @ ((vectors * kept) @ vectors.mT)
        alpha = krr_coefficients(prompt, ridge=RIDGE, kernel=kernel)
        moved = at_queries + 0.1 * alpha.mT / alpha.norm(dim=1, keepdim=True)
        cases["only k(x) moves"] = whole, moved
        for name, (low, seen) in cases.items():
            m.at("error", name, *error_and_bound(prompt, low, seen, kernel), 1e-9)
        # With K as it is the second term is all of the bound.
        alone = error_and_bound(prompt, whole, moved, kernel)
        m.compare(*alone, 1e-9, part="second term", reach=NEARLY)
        first_term(m, drawn(Linear(), prompts, seed))
        settings = f"7 ranks and both cases of equality, {prompts} prompts of 16 supports"
        return m.outcome(settings, Axes("", "|f − f̂|", bars="beside"))


def error_and_bound(
    prompt: Prompt, gram: Tensor, cross: Tensor, kernel: Kernel
) -> tuple[Tensor, Tensor]:
    """|f(x) − f̂(x)| when K and k(x) are seen as these, and its bound."""
    other = theory.approximate_prediction(prompt, gram, cross, ridge=RIDGE)
    bound = theory.query_error_bound(prompt, gram, cross, ridge=RIDGE, kernel=kernel)
    return (other - krr(prompt, ridge=RIDGE, kernel=kernel)).abs(), bound


def first_term(m: Measurement, prompt: Prompt) -> None:
    """k(x) and y along the first mode that truncation drops, and k(x) seen as it is."""
    vectors = torch.linalg.eigh(theory.gram(prompt)).eigenvectors.flip(-1)
    for rank in range(1, 6):
        mode = vectors[:, :, rank, None]
        along = Prompt(prompt.phi, mode, (prompt.phi.mT @ mode).mT)
        low = theory.eigen_truncation(along, rank=rank)
        alone = error_and_bound(along, low, theory.cross(along), Linear())
        m.compare(*alone, part=f"first term, rank {rank}", reach=NEARLY)
