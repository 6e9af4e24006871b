"""Targets from a Gaussian process whose covariance is a kernel, on Gaussian features, with noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Gaussian, Kernel
from ridgeformer.tasks.base import Prompt, Task, check_finite, check_sizes, seeded
from ridgeformer.tasks.learnable import normal as standard_normal
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class KernelDraw(Task):
    """y ~ N(0, K + noise²·I), with features x ~ N(0, scale²·I)."""

    kernel: Kernel = field(default_factory=Gaussian)
    features: int = 4
    supports: int = 32
    queries: int = 4
    outputs: int = 1
    scale: float = 1.0
    noise: float = 0.3
    copies: int = 0
    """This many supports repeat the features of the first one, each with noise of its own."""

    name = "kernel"

    def __post_init__(self) -> None:
        check_sizes(self)
        check_finite(self, "scale", "noise")
        if not 0 <= self.copies < self.supports:
            raise Refusal(
                f"copies must be at least 0 and below the number of supports, {self.supports}; "
                f"got {self.copies}."
            )

    def draw(self, batch: int, seed: int) -> Prompt:
        return self.draw_with_truth(batch, seed)[0]

    def draw_with_truth(self, batch: int, seed: int) -> tuple[Prompt, Float[Tensor, "batch q r"]]:
        """Draws prompts, and the values of the drawn functions at their queries, without noise."""
        normal = partial(standard_normal, seeded(batch, seed))
        phi = self.scale * normal(batch, self.supports, self.features)
        phi[:, self.supports - self.copies :] = phi[:, :1]
        phi_query = self.scale * normal(batch, self.queries, self.features)
        # The symmetric square root serves rank-deficient K, where Cholesky would not.
        values, vectors = torch.linalg.eigh(self.kernel(phi, phi))
        root = vectors * values.clamp(min=0).sqrt()[:, None, :]
        white = normal(batch, self.supports, self.outputs)
        y = root @ white + self.noise * normal(batch, self.supports, self.outputs)
        # The queries are drawn given the supports: a part that the same white noise determines, and a part
        # that is independent of it. Eigenvalues that are round-off are left out.
        kept = values > 1e-12 * values[:, -1:]
        inverse = torch.where(kept, values, 1.0).rsqrt() * kept
        known = self.kernel(phi_query, phi) @ (vectors * inverse[:, None, :])
        values, vectors = torch.linalg.eigh(self.kernel(phi_query, phi_query) - known @ known.mT)
        root = vectors * values.clamp(min=0).sqrt()[:, None, :]
        truth = known @ white + root @ normal(batch, self.queries, self.outputs)
        return Prompt(phi, y, phi_query), truth
