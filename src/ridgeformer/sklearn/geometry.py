"""From scikit-learn's kernel parameters and rows of X to a kernel and the features that a model reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log, sqrt

import numpy as np
import torch

from ridgeformer.compiler import LinearAttention, SoftmaxAttention
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.targets import Exact, Target
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.types import Refusal

NEGLIGIBLE = 1e-300
"""Beyond the distance at which a kernel of differences is so small, all queries are answered alike."""

ROOMS = (2.0, 1.5, 1.2, 1.0)
"""Queries may be as many times as long as the longest training row, as the first of these that compiles."""

LEAST_EIGENVALUE = 1e-6
"""A bound on λ_max(K) of less than this part of λ would gain nothing."""

Made = tuple[Kernel, float]
"""A kernel, and the number by which rows of X are multiplied."""

NAMED: dict[str, Callable[[float, int, float], Made]] = {
    "linear": lambda gamma, degree, coef0: (Linear(), 1.0),
    "polynomial": lambda gamma, degree, coef0: (Polynomial(degree, coef0), sqrt(gamma)),
    "rbf": lambda gamma, degree, coef0: (Gaussian(lengthscale=(2 * gamma) ** -0.5), 1.0),
    "exponential": lambda gamma, degree, coef0: (Exponential(temperature=1 / gamma), 1.0),
}
"""Kernels by scikit-learn's names, made from gamma, degree and coef0."""

NAMED |= {"poly": NAMED["polynomial"], "gaussian": NAMED["rbf"]}


def chosen_kernel(
    kernel: str | Kernel, gamma: float | None, degree: int, coef0: float, features: int
) -> Made:
    """The kernel of that name, with 1/features for gamma if it is left out, as in scikit-learn."""
    if isinstance(kernel, Kernel):
        return kernel, 1.0
    if kernel not in NAMED:
        raise Refusal(
            f"There is no kernel {kernel!r} that attention makes: choose from {', '.join(NAMED)}, or give a "
            "`Kernel` of ridgeformer."
        )
    gamma = 1 / features if gamma is None else gamma
    if not 0 < gamma < inf:
        raise Refusal(f"`gamma` must be positive and finite, got {gamma}.")
    return NAMED[kernel](gamma, degree, coef0)


def of_differences(kernel: Kernel) -> float | None:
    """s, if k(a, b) = exp(−s|a − b|²/2); otherwise None."""
    logits = kernel.logits()
    if logits is None or 2 * logits.norm != logits.scale:
        return None
    plain = logits.features.linear and logits.features.projection is None
    return logits.scale if plain else None


@dataclass(frozen=True, eq=False)
class Geometry:
    """The features that a model reads, which are scaled rows of X, and the domain that serves them.

    Under a kernel of differences rows are centred, which changes no kernel value and makes norms
    smaller. Queries so far outside that every kernel value is negligible are moved to where it still is.
    """

    kernel: Kernel
    scale: float
    centre: np.ndarray
    longest: float
    """The largest norm of a training row, in the model's features."""

    @staticmethod
    def of(kernel: Kernel, scale: float, X: np.ndarray) -> Geometry:
        centre = np.zeros(X.shape[1]) if of_differences(kernel) is None else X.mean(0)
        longest = float(np.linalg.norm((X - centre) * scale, axis=1).max())
        if not isfinite(longest):
            raise Refusal("Norms of rows of X leave the range of float64: scale the features down.")
        return Geometry(kernel, scale, centre, longest)

    @property
    def farthest(self) -> float:
        """The norm up to which queries are read as they are."""
        s = of_differences(self.kernel)
        return inf if s is None else self.longest + sqrt(-2 * log(NEGLIGIBLE) / s)

    def features(self, X: np.ndarray) -> np.ndarray:
        phi: np.ndarray = (X - self.centre) * self.scale
        if self.farthest == inf:
            return phi
        norms = np.linalg.norm(phi, axis=1, keepdims=True)
        near: np.ndarray = phi * (self.farthest / np.maximum(norms, self.farthest))
        return near

    def heights(self, phi: np.ndarray) -> np.ndarray:
        """√k(x, x) of every row."""
        values: np.ndarray = self.kernel.diagonal(torch.from_numpy(phi)[None])[0, :, 0].numpy()
        roots: np.ndarray = np.sqrt(values)
        return roots

    def target(self, max_eigenvalue: float, ridge: float, supports: int) -> Target:
        """Attention that makes the kernel, for the training rows and for queries like them."""
        if self.kernel.logits() is None:
            return LinearAttention(max(max_eigenvalue, LEAST_EIGENVALUE * ridge), Exact())
        return SoftmaxAttention(max_norm=self.max_norm(supports), max_supports=supports)

    def max_norm(self, supports: int) -> float:
        if self.farthest < inf:
            return self.farthest
        longest = self.longest or 1.0
        for room in ROOMS[:-1]:
            try:
                Domain(self.kernel, room * longest, supports).check("float64")
            except Refusal:
                continue
            return room * longest
        return ROOMS[-1] * longest
