"""Linear regression; prompts have spectra and rotations of their own, or share one covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Linear
from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.gaussian_law import GaussianLaw
from ridgeformer.tasks.learnable import LearnableTask, generator_of, normal, uniform

Rotation = Literal["random", "fixed", "none"]
Prior = Literal["isotropic", "inverse-covariance"]

CONDITIONS = (1.0, 3.0, 10.0, 30.0)
"""Each of these condition numbers is scored alone, besides the task's largest."""

ROTATION = 0x2074
"""This number is part of the seed of a fixed rotation, so that no prompt shares its random numbers."""


@dataclass(frozen=True)
class LinearRegression(LearnableTask):
    """y = ⟨w, x⟩ + noise, w ~ N(0, I/d), x ~ N(0, Σ) with Σ = R diag(s) Rᵀ.

    s is geometric with a condition number that is log-uniform in [1, `condition`] for each prompt,
    scaled to mean 1; `condition` 1 makes x isotropic. A `spectrum` that is given is used as it is.
    The rotation R is random for each prompt, or one that all prompts share (`fixed`, drawn by
    `rotation_seed`), or the identity (`none`). With the prior `inverse-covariance` the weights are
    w ~ N(0, Σ⁻¹/d), which needs a Σ that all prompts share. Without noise the best predictor
    interpolates the supports.
    """

    features: int = 8
    condition: float = 100.0
    noise: float = 0.3
    spectrum: tuple[float, ...] = ()
    rotation: Rotation = "random"
    rotation_seed: int = 0
    prior: Prior = "isotropic"

    name = "linear"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spectrum", tuple(self.spectrum))
        super().__post_init__()
        self.require(self.condition >= 1, "condition ≥ 1", "condition")
        self.require(self.noise >= 0, "noise ≥ 0", "noise")
        fits = len(self.spectrum) in (0, self.features) and min(self.spectrum, default=1) > 0
        self.require(fits, "a positive spectrum value for each feature", "spectrum", "features")
        for name, choices in (("rotation", get_args(Rotation)), ("prior", get_args(Prior))):
            known = getattr(self, name) in choices
            self.require(known, f"a {name} of {', '.join(choices)}", name)
        self.require(self.rotation_seed >= 0, "rotation_seed ≥ 0", "rotation_seed")
        shared = bool(self.spectrum) and self.rotation != "random"
        self.require(
            shared or self.prior == "isotropic",
            "a spectrum and a rotation that is fixed or none for the prior inverse-covariance",
            "spectrum",
            "rotation",
        )

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
    def ridge(self) -> float | None:
        """The λ of the posterior mean, which is the noise variance over the variance of a weight.

        There is none if the weights have different variances, or if there is no noise.
        """
        single = self.noise > 0 and self.prior == "isotropic"
        return self.noise**2 * self.features if single else None

    def shared_rotation(self) -> Float[Tensor, "d d"]:
        """The rotation of all prompts, if it is not random."""
        if self.rotation == "none":
            return torch.eye(self.features, dtype=torch.float64)
        drawn = normal(generator_of(ROTATION, self.rotation_seed), self.features, self.features)
        turn: Tensor = torch.linalg.qr(drawn).Q
        return turn

    def weight_root(self) -> Float[Tensor, "d d"]:
        """A matrix T such that w = T·N(0, I/d) has the prior's covariance."""
        if self.prior == "isotropic":
            return torch.eye(self.features, dtype=torch.float64)
        root = torch.tensor(self.spectrum, dtype=torch.float64).rsqrt()
        return self.shared_rotation() * root

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
        if self.rotation == "random":
            turn = torch.linalg.qr(normal(generator, batch, d, d)).Q
        else:
            turn = self.shared_rotation()
        x = normal(generator, batch, points, d) * spectrum.sqrt()[:, None, :] @ turn.mT
        w = normal(generator, batch, d, 1) / d**0.5
        if self.prior != "isotropic":
            w = self.weight_root() @ w
        return x, x @ w + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, which is ridge regression with λ = noise²·d in whitened weights.

        Without noise it has the smallest whitened weights among those that fit the supports.
        """
        root = self.weight_root()
        phi, y = prompt.phi.double() @ root, prompt.y.double()
        if self.noise > 0:
            gram = phi.mT @ phi
            gram += self.noise**2 * self.features * torch.eye(self.features, dtype=torch.float64)
            w: Tensor = torch.linalg.solve(gram, phi.mT @ y)
        else:
            w = torch.linalg.lstsq(phi, y, driver="gelsd").solution
        return prompt.phi_query.double() @ root @ w


def spectra(kappa: Float[Tensor, "batch 1"], d: int) -> Float[Tensor, "batch d"]:
    """Geometric spectra with these condition numbers, from largest to smallest, with mean 1."""
    values = kappa ** -torch.linspace(0, 1, d, dtype=torch.float64) if d > 1 else kappa**0
    return values / values.mean(-1, keepdim=True)
