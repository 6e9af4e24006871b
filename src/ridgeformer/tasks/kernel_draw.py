"""Targets drawn from a kernel: a Gaussian process on Gaussian features, with noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Gaussian, Kernel
from ridgeformer.tasks.base import Prompt, Task
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
    """How many supports repeat the features of the first one, each with noise of its own."""

    name = "kernel"

    def __post_init__(self) -> None:
        if not 0 <= self.copies < self.supports:
            raise Refusal(
                f"copies must be at least 0 and below the number of supports, {self.supports}; "
                f"got {self.copies}."
            )

    def draw(self, batch: int, seed: int) -> Prompt:
        return self.draw_with_truth(batch, seed)[0]

    def draw_with_truth(self, batch: int, seed: int) -> tuple[Prompt, Float[Tensor, "batch q r"]]:
        """Prompts, and the value of the drawn function at their queries, without noise."""
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        phi = self.scale * normal(batch, self.supports, self.features)
        phi[:, self.supports - self.copies :] = phi[:, :1]
        phi_query = self.scale * normal(batch, self.queries, self.features)
        # The symmetric square root serves rank-deficient K, where Cholesky would not.
        values, vectors = torch.linalg.eigh(self.kernel(phi, phi))
        root = vectors * values.clamp(min=0).sqrt()[:, None, :]
        white = normal(batch, self.supports, self.outputs)
        y = root @ white + self.noise * normal(batch, self.supports, self.outputs)
        # Queries given supports: what the same white noise says, and the part that it leaves open.
        # Eigenvalues that are round-off would say nothing but round-off.
        kept = values > 1e-12 * values[:, -1:]
        inverse = torch.where(kept, values, 1.0).rsqrt() * kept
        known = self.kernel(phi_query, phi) @ (vectors * inverse[:, None, :])
        values, vectors = torch.linalg.eigh(self.kernel(phi_query, phi_query) - known @ known.mT)
        root = vectors * values.clamp(min=0).sqrt()[:, None, :]
        truth = known @ white + root @ normal(batch, self.queries, self.outputs)
        return Prompt(phi, y, phi_query), truth
