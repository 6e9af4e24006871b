"""Linear regression whose Gram matrix has prescribed eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from ridgeformer.tasks.base import Prompt, Task, check_finite, check_sizes, seeded
from ridgeformer.tasks.learnable import normal as standard_normal
from ridgeformer.types import Refusal

Shape = Literal["geometric", "uniform", "clustered"]


@dataclass(frozen=True)
class PrescribedSpectrum(Task):
    """Gaussian features, reshaped so that cond(K + λI) is `condition`, with noisy linear targets.

    K's largest eigenvalue is (condition − 1)·λ, and its rank is min(k, p). When k > p the null
    space of K makes λ an eigenvalue of A = K + λI, so that cond(A) is exact; when k ≤ p the
    smallest eigenvalue of K is set to 0 for the same reason.

    features   p, the number of features
    supports   k, the number of supports of every problem
    queries   q, the number of queries of every problem
    outputs   r, the number of targets of every support
    condition   κ, the condition number of K + λI
    ridge   λ
    shape   how the eigenvalues lie between their ends: `geometric`, `uniform` or `clustered`
    noise   the standard deviation of the noise on the targets
    """

    features: int = 8
    supports: int = 32
    queries: int = 4
    outputs: int = 1
    condition: float = 100.0
    ridge: float = 1.0
    shape: Shape = "geometric"
    noise: float = 0.3

    name = "spectrum"

    def __post_init__(self) -> None:
        check_sizes(self)
        check_finite(self, "condition", "ridge", "noise")
        if self.condition < 1 or self.ridge <= 0:
            raise Refusal(
                "A spectrum needs condition ≥ 1 and ridge > 0, "
                f"got condition {self.condition} and ridge {self.ridge}."
            )

    @property
    def max_eigenvalue(self) -> float:
        """λ_max(K), the bound that a compiled model needs."""
        return (self.condition - 1) * self.ridge

    def eigenvalues(self, generator: torch.Generator) -> torch.Tensor:
        """The min(k, p) leading eigenvalues of K, in falling order."""
        m = min(self.supports, self.features)
        position = torch.linspace(0, 1, m, dtype=torch.float64)
        top, bottom = self.max_eigenvalue, 0.1 * self.ridge
        if self.shape == "geometric":
            values = top * (bottom / max(top, bottom)) ** position
        elif self.shape == "uniform":
            values = bottom + (top - bottom) * torch.rand(
                m, generator=generator, dtype=torch.float64
            )
        else:  # clustered: two tight groups, for which Krylov methods need few steps
            values = torch.where(position < 0.5, top, top**0.5) * (1 - 1e-3 * position)
        values = values.sort(descending=True).values.clamp(max=top)
        values[0] = top
        if self.supports <= self.features and m > 1:
            values[-1] = 0.0
        return values

    def draw(self, batch: int, seed: int) -> Prompt:
        generator = seeded(batch, seed)
        normal = partial(standard_normal, generator)
        k, p, m = self.supports, self.features, min(self.supports, self.features)
        left = torch.linalg.qr(normal(batch, k, m)).Q
        right = torch.linalg.qr(normal(batch, p, m)).Q
        scale = self.eigenvalues(generator).sqrt()
        phi = left * scale @ right.mT
        # Queries have the supports' second moment, E φφᵀ = ΦᵀΦ / k.
        phi_query = normal(batch, self.queries, m) * scale @ right.mT / k**0.5
        weights = normal(batch, p, self.outputs) / p**0.5
        y = phi @ weights + self.noise * normal(batch, k, self.outputs)
        return Prompt(phi, y, phi_query)
