"""Feature drift: what a change φ → φ̂ of the features does to the kernel and to predictions."""

from __future__ import annotations

from math import exp, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.solvers import krr_coefficients
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import cross, lengths, spectral
from ridgeformer.theory.width_rank import resolvent_bound
from ridgeformer.types import Refusal


def lipschitz_constant(kernel: Kernel, max_norm: float) -> float:
    """The c in |k(a, b) − k(â, b̂)| ≤ c(|a − â| + |b − b̂|), for features of norm at most N.

    Linear ‖U‖²N; Gaussian e^{−1/2}/ℓ whatever N; exponential (‖U‖²N/τ)·exp(‖U‖²N²/τ);
    polynomial d·N·(N² + offset)^{d−1}.
    """
    if isinstance(kernel, Gaussian):
        return exp(-0.5) / kernel.lengthscale
    if isinstance(kernel, Exponential):
        exponent = kernel.exponent(max_norm)
        return exponent / max_norm * exp(exponent) if max_norm > 0 else 0.0
    if isinstance(kernel, Linear):
        return kernel.stretch**2 * max_norm
    return max_norm * float(slope(kernel, torch.tensor(max_norm**2, dtype=torch.float64)))


def gram_drift_bound(
    prompt: Prompt, drifted: Prompt, *, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """‖K − K̂‖₂ ≤ ‖Φ − Φ̂‖₂(‖Φ‖₂ + ‖Φ̂‖₂) for the linear kernel (of Uφ), and ≤ ‖M‖₂ for the others.

    With δ_i = |φ_i − φ̂_i| and N_i = max(|φ_i|, |φ̂_i|), M has the entries
    Gaussian: (e^{−1/2}/ℓ)(δ_i + δ_j) off the diagonal, which itself does not move;
    exponential: (δ_i N_j + N_i δ_j)·exp(N_i N_j/τ)/τ, of the features Uφ;
    polynomial: (δ_i N_j + N_i δ_j)·d·(N_i N_j + offset)^{d−1}.
    """
    kernel = kernel or Linear()
    phi, moved = prompt.phi.double(), drifted.phi.double()
    if isinstance(kernel, Linear):
        phi, moved = kernel.project(phi), kernel.project(moved)
        return spectral(phi - moved) * (spectral(phi) + spectral(moved))
    entries = entry_drift_bound(kernel, phi, moved, phi, moved)
    if isinstance(kernel, Gaussian):
        entries.diagonal(dim1=1, dim2=2).zero_()
    return spectral(entries)


def cross_drift_bound(
    prompt: Prompt, drifted: Prompt, *, kernel: Kernel | None = None
) -> Float[Tensor, "batch q"]:
    """‖k(x) − k̂(x)‖ ≤ ‖Φ − Φ̂‖₂|φ(x)| + ‖Φ̂‖₂|φ(x) − φ̂(x)| for the linear kernel.

    For the others ≤ √(Σ_i M_i²), with the entries of `gram_drift_bound` between query and supports.
    """
    kernel = kernel or Linear()
    phi, moved = prompt.phi.double(), drifted.phi.double()
    query, query_moved = prompt.phi_query.double(), drifted.phi_query.double()
    if isinstance(kernel, Linear):
        phi, moved, query, query_moved = (
            kernel.project(x) for x in (phi, moved, query, query_moved)
        )
        supports = spectral(phi - moved)[:, None] * lengths(query, 2)
        return supports + spectral(moved)[:, None] * lengths(query - query_moved, 2)
    return lengths(entry_drift_bound(kernel, query, query_moved, phi, moved), 2)


def drift_prediction_bound(
    prompt: Prompt, drifted: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch q r"]:
    """|f(x) − f̂(x)| ≤ the smaller of two bounds, with e ≥ ‖K − K̂‖₂ and d ≥ ‖k(x) − k̂(x)‖ as above:

    ‖y‖·(‖k(x)‖·e/(λ(λ + e)) + d/λ)  and  ‖α*‖·(√k̂(x, x)·e/(2√λ) + d).

    The first stays finite however large e is; the second does not grow with the number of supports.
    """
    kernel = kernel or Linear()
    in_gram = gram_drift_bound(prompt, drifted, kernel=kernel)[:, None]
    in_cross = cross_drift_bound(prompt, drifted, kernel=kernel)
    norm = lengths(cross(prompt, kernel), 2)
    first = norm * resolvent_bound(in_gram, ridge=ridge) + in_cross / ridge
    height = kernel.diagonal(drifted.phi_query.double())[..., 0].sqrt()
    second = height * in_gram / (2 * sqrt(ridge)) + in_cross
    alpha = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    return torch.minimum(
        first[:, :, None] * lengths(prompt.y.double(), 1)[:, None, :],
        second[:, :, None] * lengths(alpha, 1)[:, None, :],
    )


def entry_drift_bound(
    kernel: Kernel,
    a: Float[Tensor, "batch m p"],
    a_moved: Float[Tensor, "batch m p"],
    b: Float[Tensor, "batch n p"],
    b_moved: Float[Tensor, "batch n p"],
) -> Float[Tensor, "batch m n"]:
    """A bound on |k(a_i, b_j) − k(â_i, b̂_j)| for every pair."""
    if isinstance(kernel, Exponential):  # a dot-product kernel of the features Uφ
        a, a_moved, b, b_moved = (kernel.project(x) for x in (a, a_moved, b, b_moved))
    by_a = lengths(a - a_moved, 2)[:, :, None]
    by_b = lengths(b - b_moved, 2)[:, None, :]
    if isinstance(kernel, Gaussian):
        return lipschitz_constant(kernel, 0.0) * (by_a + by_b)
    norm_a = torch.maximum(lengths(a, 2), lengths(a_moved, 2))[:, :, None]
    norm_b = torch.maximum(lengths(b, 2), lengths(b_moved, 2))[:, None, :]
    return (by_a * norm_b + norm_a * by_b) * slope(kernel, norm_a * norm_b)


def slope(kernel: Kernel, largest: Tensor) -> Tensor:
    """The largest |h'(z)| for |z| ≤ largest, of a kernel k(a, b) = h(⟨a, b⟩)."""
    match kernel:
        case Exponential():
            return (largest / kernel.temperature).exp() / kernel.temperature
        case Polynomial():
            return kernel.degree * (largest + kernel.offset) ** (kernel.degree - 1)
    raise Refusal(f"No bound on the drift of the kernel {kernel.name!r} is known.")
