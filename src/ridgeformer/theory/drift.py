"""Feature drift: what a change φ → φ̂ of the features does to the kernel and to predictions."""

from __future__ import annotations

from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, FeatureMap, Kernel
from ridgeformer.solvers import krr_coefficients
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import cross, lengths, spectral
from ridgeformer.theory.width_rank import resolvent_bound


def lipschitz_constant(kernel: Kernel, max_norm: float) -> float:
    """The c in |k(a, b) − k(â, b̂)| ≤ c(|a − â| + |b − b̂|), for features of norm at most max_norm."""
    return kernel.lipschitz(max_norm)


def linear_map(kernel: Kernel, features: int) -> FeatureMap | None:
    """The U of a kernel ⟨Ua, Ub⟩; None for any other kernel."""
    features_of = kernel.dot_product(features)
    return features_of if features_of is not None and features_of.linear else None


def gram_drift_bound(
    prompt: Prompt, drifted: Prompt, *, kernel: Kernel | None = None
) -> Float[Tensor, " batch"]:
    """A bound on ‖K − K̂‖₂: ‖Φ − Φ̂‖₂(‖Φ‖₂ + ‖Φ̂‖₂) for a dot product of linear features, else ‖M‖₂.

    M holds the kernel's own bounds on the drift of its entries (`Kernel.drift`), and on its
    diagonal the drift |k(φ_i, φ_i) − k(φ̂_i, φ̂_i)| itself.
    """
    kernel = kernel or DEFAULT_KERNEL
    phi, moved = prompt.phi.double(), drifted.phi.double()
    linear = linear_map(kernel, prompt.features)
    if linear is not None:
        phi, moved = linear(phi), linear(moved)
        return spectral(phi - moved) * (spectral(phi) + spectral(moved))
    entries = kernel.drift(phi, moved, phi, moved)
    own = (kernel.diagonal(phi) - kernel.diagonal(moved)).abs()[..., 0]
    return spectral(torch.diagonal_scatter(entries, own, dim1=1, dim2=2))


def cross_drift_bound(
    prompt: Prompt, drifted: Prompt, *, kernel: Kernel | None = None
) -> Float[Tensor, "batch q"]:
    """A bound on ‖k(x) − k̂(x)‖: ‖Φ − Φ̂‖₂|φ(x)| + ‖Φ̂‖₂|φ(x) − φ̂(x)| for linear features.

    For other kernels the bound is √(Σ_i M_i²), where M_i is the kernel's own bound on the drift of
    k(x, φ_i).
    """
    kernel = kernel or DEFAULT_KERNEL
    phi, moved = prompt.phi.double(), drifted.phi.double()
    query, query_moved = prompt.phi_query.double(), drifted.phi_query.double()
    linear = linear_map(kernel, prompt.features)
    if linear is not None:
        phi, moved, query, query_moved = map(linear, (phi, moved, query, query_moved))
        by_supports = spectral(phi - moved)[:, None] * lengths(query, 2)
        return by_supports + spectral(moved)[:, None] * lengths(query - query_moved, 2)
    return lengths(kernel.drift(query, query_moved, phi, moved), 2)


def drift_prediction_bound(
    prompt: Prompt,
    drifted: Prompt,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    in_gram: Float[Tensor, " batch"] | None = None,
    in_cross: Float[Tensor, "batch q"] | None = None,
) -> Float[Tensor, "batch q r"]:
    """A bound on |f(x) − f̂(x)| for features that have drifted: the smaller of two bounds.

    They are ‖y‖·(‖k(x)‖·e/(λ(λ + e)) + d/λ) and ‖α*‖·(√k̂(x, x)·e/(2√λ) + d). ‖K − K̂‖ ≤ e and
    ‖k(x) − k̂(x)‖ ≤ d are `in_gram` and `in_cross`; left out, they are `gram_drift_bound` and
    `cross_drift_bound`. The first stays finite however large e is; the second does not grow with the number
    of supports.
    """
    kernel = kernel or DEFAULT_KERNEL
    if in_gram is None:
        in_gram = gram_drift_bound(prompt, drifted, kernel=kernel)
    if in_cross is None:
        in_cross = cross_drift_bound(prompt, drifted, kernel=kernel)
    e = in_gram[:, None]
    first = lengths(cross(prompt, kernel), 2) * resolvent_bound(e, ridge=ridge) + in_cross / ridge
    height = kernel.diagonal(drifted.phi_query.double())[..., 0].sqrt()
    second = height * e / (2 * sqrt(ridge)) + in_cross
    alpha = krr_coefficients(prompt, ridge=ridge, kernel=kernel)
    return torch.minimum(
        first[:, :, None] * lengths(prompt.y.double(), 1)[:, None, :],
        second[:, :, None] * lengths(alpha, 1)[:, None, :],
    )
