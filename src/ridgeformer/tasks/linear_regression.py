"""Linear regression in which every prompt has a spectrum of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Linear
from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.gaussian_law import GaussianLaw
from ridgeformer.tasks.learnable import LearnableTask, normal, uniform

CONDITIONS = (1.0, 3.0, 10.0, 30.0)
"""Each of these condition numbers is scored alone, besides the task's largest."""


@dataclass(frozen=True)
class LinearRegression(LearnableTask):
    """y = ⟨w, x⟩ + noise, w ~ N(0, I/d), x ~ N(0, R diag(s) Rᵀ) with a random rotation R.

    s is geometric with a condition number that is log-uniform in [1, `condition`] for each prompt,
    scaled to mean 1; `condition` 1 makes x isotropic. A `spectrum` that is given is used as it is.
    """

    features: int = 8
    condition: float = 100.0
    noise: float = 0.3
    spectrum: tuple[float, ...] = ()

    name = "linear"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spectrum", tuple(self.spectrum))
        super().__post_init__()
        self.require(self.condition >= 1, "condition ≥ 1", "condition")
        self.require(self.noise > 0, "noise > 0", "noise")
        fits = len(self.spectrum) in (0, self.features) and min(self.spectrum, default=1) > 0
        self.require(fits, "a positive spectrum value for each feature", "spectrum", "features")

    def slices(self) -> dict[str, LearnableTask]:
        """Each part has one condition number: 1, 3, 10, 30, 100 up to that of the task."""
        if self.spectrum or self.condition == 1:
            return {}
        kappas = [k for k in CONDITIONS if k < self.condition] + [self.condition]
        return {f"κ = {k:g}": replace(self, spectrum=tuple(self.geometric(k))) for k in kappas}

    def geometric(self, condition: float) -> list[float]:
        """The spectrum that has this condition number."""
        values = spectra(torch.tensor([[condition]], dtype=torch.float64), self.features)
        return [float(v) for v in values[0]]

    @property
    def ridge(self) -> float:
        """The λ of the posterior mean, which is the noise variance over the variance of a weight."""
        return self.noise**2 * self.features

    def laws(self) -> tuple[GaussianLaw, ...]:
        """y | Φ ~ N(0, (ΦΦᵀ + λI)/d), whatever the spectrum and the rotation."""
        ridge = self.ridge
        return () if ridge is None else (GaussianLaw(Linear(), ridge, 1 / self.features),)

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        d = self.features
        kappa = (log(self.condition) * uniform(generator, batch, 1)).exp()
        spectrum = spectra(kappa, d)
        if self.spectrum:
            spectrum = torch.tensor([self.spectrum], dtype=torch.float64)
        turn = torch.linalg.qr(normal(generator, batch, d, d)).Q
        x = normal(generator, batch, points, d) * spectrum.sqrt()[:, None, :] @ turn.mT
        w = normal(generator, batch, d, 1) / d**0.5
        return x, x @ w + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, which is ridge regression with λ = noise²·d, whatever the spectrum."""
        phi, y = prompt.phi.double(), prompt.y.double()
        gram = phi.mT @ phi + self.ridge * torch.eye(self.features, dtype=torch.float64)
        w: Tensor = torch.linalg.solve(gram, phi.mT @ y)
        return prompt.phi_query.double() @ w


def spectra(kappa: Float[Tensor, "batch 1"], d: int) -> Float[Tensor, "batch d"]:
    """Geometric spectra with these condition numbers, from largest to smallest, with mean 1."""
    values = kappa ** -torch.linspace(0, 1, d, dtype=torch.float64) if d > 1 else kappa**0
    return values / values.mean(-1, keepdim=True)
