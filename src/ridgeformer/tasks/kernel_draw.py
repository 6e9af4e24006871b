"""Targets drawn from a kernel: a Gaussian process on Gaussian features, with noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ridgeformer.kernels import Gaussian, Kernel
from ridgeformer.tasks.base import Prompt, Task


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

    name = "kernel"

    def draw(self, batch: int, seed: int) -> Prompt:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        phi = self.scale * normal(batch, self.supports, self.features)
        phi_query = self.scale * normal(batch, self.queries, self.features)
        # The symmetric square root serves rank-deficient K, where Cholesky would not.
        values, vectors = torch.linalg.eigh(self.kernel(phi, phi))
        root = vectors * values.clamp(min=0).sqrt()[:, None, :]
        clean = root @ normal(batch, self.supports, self.outputs)
        return Prompt(
            phi, clean + self.noise * normal(batch, self.supports, self.outputs), phi_query
        )
