"""The prompts that a softmax model serves, and what follows for its logits and normalisers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

SLACK = {"float64": 1e-9, "float32": 1e-5}
"""Relative slack on the bounds of the domain, for prompts that lie on its edge up to round-off."""

ROUNDED = 2.0**-23
"""Twice what rounding to float32 moves a number by, or the norm of several, relative to itself."""


def slack(dtype: str, *, rounded: bool = True, modes: int | None = None) -> float:
    """The factor by which a prompt may exceed a bound on norms, or on eigenvalues of K with so many modes.

    A prompt in float32 may be a rounded one of the domain. The promise covers what is allowed here, and
    docs/construction.md says why.
    """
    if not rounded:
        return 1 + SLACK[dtype]
    # An error E of Φ has ‖E‖ ≤ 3u‖Φ‖_F ≤ 3u√modes·‖Φ‖, with products of up to three features in Φ.
    return 1 + max(SLACK[dtype], ROUNDED if modes is None else 4 * ROUNDED * modes**0.5)


LARGEST_NORMALISER = {"float64": 1e15, "float32": 1e6}
"""Beyond these, a single kernel value is no longer resolved in the sum of its row."""

LARGEST_LOGIT = {"float64": 1e6, "float32": 2e3}
"""Beyond these, round-off in a logit would cost more than is promised."""


@dataclass(frozen=True)
class Domain:
    kernel: Kernel
    max_norm: float
    max_supports: int
    max_target: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_norm", self.max_norm), ("max_target", self.max_target)):
            if value is not None and not (value > 0 and isfinite(value)):
                raise Refusal(f"`{name}` must be positive and finite, got {value}.")
        if self.max_supports < 1:
            raise Refusal(f"`max_supports` must be at least 1, got {self.max_supports}.")

    def reached(self, dtype: str) -> Domain:
        """The domain of all prompts that are served: |φ| may exceed its bound by what `slack` allows."""
        return replace(self, max_norm=self.max_norm * slack(dtype))

    @property
    def max_eigenvalue(self) -> float:
        """λ_max(K) ≤ trace(K) ≤ k·max k(a, a)"""
        return self.max_supports * self.kernel.range(self.max_norm).most

    @property
    def row_sums(self) -> tuple[float, float]:
        """The range of 1 + Σ_j K_ij at the supports, where the sum includes the support itself."""
        values = self.kernel.range(self.max_norm)
        return 1 + values.least_diagonal, 1 + self.max_supports * values.most

    @property
    def largest_logit(self) -> float:
        logits = self.kernel.logits()
        return 1.0 if logits is None else logits.largest(self.max_norm)

    def units_of_logits(self, features: int) -> float:
        """(2p + 10)·L, where logits are differences of numbers up to L, and 0 elsewhere.

        By so many units of round-off a kernel value of p features may be off (the theorem on the normaliser),
        while a solver that forms the difference |a − b|² itself is off by a few.
        """
        logits = self.kernel.logits()
        if logits is None or not logits.norm:
            return 0.0
        return (2 * logits.features.width(features) + 10) * self.largest_logit

    def check(self, dtype: str) -> None:
        """Refuses row sums that no longer resolve a single kernel value, and too large logits."""
        top = self.row_sums[1]
        if top > LARGEST_NORMALISER[dtype]:
            raise Refusal(
                f"The normaliser 1 + Σ K_ij would reach {top:.3g}, beyond {LARGEST_NORMALISER[dtype]:g} "
                f"where {dtype} still resolves one kernel value in it: raise the `temperature`, or "
                "lower `max_norm` or `max_supports`."
            )
        self.check_logits(dtype)

    def check_logits(self, dtype: str) -> None:
        """Refuses logits that are differences of numbers too large to resolve them."""
        logits = self.kernel.logits()
        if logits is not None and logits.norm and self.largest_logit > LARGEST_LOGIT[dtype]:
            raise Refusal(
                f"Logits would reach {self.largest_logit:.3g}, beyond {LARGEST_LOGIT[dtype]:g} where "
                f"{dtype} still resolves their differences: raise the `lengthscale` or lower `max_norm`."
            )


def lengths(vectors: Float[Tensor, "batch n r"]) -> Float[Tensor, "batch r"]:
    """The norm of each output's vector."""
    norms: Tensor = vectors.double().norm(dim=1)
    return norms


def largest_eigenvalue(prompt: Prompt, kernel: Kernel) -> Float[Tensor, " batch"]:
    """λ_max(K) of each prompt, computed from the smaller matrix where K has few features."""
    phi = prompt.phi.double()
    factor = kernel.factor(phi)
    small = kernel(phi, phi) if factor is None else factor.mT @ factor
    if not torch.isfinite(small).all():
        raise Refusal(
            f"Values of the {kernel.name} kernel leave the range of float64: scale the features down."
        )
    values: Tensor = torch.linalg.eigvalsh(small)
    return values[:, -1]
