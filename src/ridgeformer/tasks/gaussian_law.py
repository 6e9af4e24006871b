"""`GaussianLaw`: targets that are Gaussian given the inputs, whose best predictor is kernel ridge regression.

    y | Φ ~ N(0, v·(K + λI)),    f*(x) = k(x)ᵀ(K + λI)⁻¹y

The sum of two independent draws, over √2, is a draw from the same law.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ridgeformer.kernels import Kernel
from ridgeformer.tasks.base import Prompt


@dataclass(frozen=True)
class GaussianLaw:
    """The kernel, the ridge λ and the variance v."""

    kernel: Kernel
    ridge: float
    variance: float = 1.0

    def relabel(self, prompt: Prompt, generator: torch.Generator) -> Prompt:
        """The same inputs with targets that are drawn anew."""
        phi = prompt.phi.double()
        system = self.kernel(phi, phi)
        system = system + self.ridge * torch.eye(prompt.supports, dtype=torch.float64)
        white = torch.randn(prompt.y.shape, generator=generator, dtype=torch.float64)
        y = self.variance**0.5 * torch.linalg.cholesky(system) @ white
        return Prompt(prompt.phi, y.to(prompt.y.dtype), prompt.phi_query)
