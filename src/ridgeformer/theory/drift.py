"""Feature drift: what a change φ → φ̂ of the features does to the kernel and to predictions."""

from __future__ import annotations

from math import exp, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import cross, lengths, spectral
from ridgeformer.theory.width_rank import resolvent_bound
from ridgeformer.types import Refusal


def lipschitz_constant(kernel: Kernel, max_norm: float) -> float:
    """The ℓ in |k(a, b) − k(â, b̂)| ≤ ℓ(|a − â| + |b − b̂|), for features of norm at most N.

    Linear N; Gaussian e^{−1/2}/ℓ whatever N; exponential (‖U‖²N/τ)·exp(‖U‖²N²/τ);
    polynomial d·N·(N² + c)^{d−1}.
    """
    match kernel:
        case Linear():
            return max_norm
        case Gaussian():
            return exp(-0.5) / kernel.lengthscale
        case Exponential():
            slope = kernel.exponent(1.0) * max_norm
            return slope * exp(kernel.exponent(max_norm))
        case Polynomial():
            return kernel.degree * max_norm * (max_norm**2 + kernel.offset) ** (kernel.degree - 1)
    raise Refusal(f"No Lipschitz constant is known for the kernel {kernel.name!r}.")


def gram_drift_bound(
    prompt: Prompt, drifted: Prompt, *, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """‖K − K̂‖₂ ≤ ‖Φ − Φ̂‖₂(‖Φ‖₂ + ‖Φ̂‖₂) for the linear kernel, and ≤ ‖M‖₂ for the others.

    M_ij = ℓ(|δ_i| + |δ_j|) with δ_i = φ_i − φ̂_i and ℓ the Lipschitz constant; M_ii = 0 for the
    Gaussian kernel, whose diagonal does not move. ‖M‖₂ ≤ ℓ(Σ|δ_i| + √(k Σ|δ_i|²)).
    """
    kernel = kernel or Linear()
    phi, moved = prompt.phi.double(), drifted.phi.double()
    if isinstance(kernel, Linear):
        return spectral(phi - moved) * (spectral(phi) + spectral(moved))
    size = lengths(phi - moved, 2)
    entries = lipschitz(prompt, drifted, kernel) * (size[:, :, None] + size[:, None, :])
    if isinstance(kernel, Gaussian):
        entries.diagonal(dim1=1, dim2=2).zero_()
    return spectral(entries)


def cross_drift_bound(
    prompt: Prompt, drifted: Prompt, *, kernel: Kernel | None = None
) -> Float[Tensor, "batch q"]:
    """‖k(x) − k̂(x)‖ ≤ ‖Φ − Φ̂‖₂|φ(x)| + ‖Φ̂‖₂|φ(x) − φ̂(x)| for the linear kernel.

    For the others ≤ ℓ·√(Σ_i (|δ_i| + |δ(x)|)²).
    """
    kernel = kernel or Linear()
    phi, moved = prompt.phi.double(), drifted.phi.double()
    query, query_moved = prompt.phi_query.double(), drifted.phi_query.double()
    at_query = lengths(query - query_moved, 2)
    if isinstance(kernel, Linear):
        return (
            spectral(phi - moved)[:, None] * lengths(query, 2) + spectral(moved)[:, None] * at_query
        )
    size = lengths(phi - moved, 2)
    together = lengths(size[:, None, :] + at_query[:, :, None], 2)
    return lipschitz(prompt, drifted, kernel) * together


def drift_prediction_bound(
    prompt: Prompt, drifted: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "batch q r"]:
    """|f(x) − f̂(x)| ≤ ‖y‖·( min(‖k(x)‖·e/(λ(λ + e)), √k(x, x)·e/(2λ^{3/2})) + d/λ ).

    e and d are the bounds on ‖K − K̂‖₂ and ‖k(x) − k̂(x)‖ above. The second argument of the minimum
    does not grow with the number of supports.
    """
    kernel = kernel or Linear()
    gram_drift = gram_drift_bound(prompt, drifted, kernel=kernel)[:, None]
    norm = lengths(cross(prompt, kernel), 2)
    height = kernel.diagonal(prompt.phi_query.double())[..., 0].sqrt()
    system = torch.minimum(
        norm * resolvent_bound(gram_drift, ridge=ridge),
        height * gram_drift / (2 * ridge * sqrt(ridge)),
    )
    factor = system + cross_drift_bound(prompt, drifted, kernel=kernel) / ridge
    return factor[:, :, None] * lengths(prompt.y.double(), 1)[:, None, :]


def lipschitz(prompt: Prompt, drifted: Prompt, kernel: Kernel) -> float:
    """The constant for all features of both prompts."""
    features = (prompt.phi, prompt.phi_query, drifted.phi, drifted.phi_query)
    return lipschitz_constant(kernel, max(float(lengths(f.double(), 2).max()) for f in features))
