"""A mixture of linear regressions: weights near one of a few fixed centres."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.learnable import LearnableTask, normal
from ridgeformer.tasks.posterior import averaged


@dataclass(frozen=True)
class MixtureOfRegressions(LearnableTask):
    """y = ⟨w, x⟩ + noise, x ~ N(0, I), w = c_m + N(0, deviation²·I/d) with m uniform in each prompt.

    The `components` centres c_m ~ N(0, I/d) are part of the task: they are drawn once, from `centres_seed`.
    """

    features: int = 8
    components: int = 4
    deviation: float = 0.3
    noise: float = 0.3
    centres_seed: int = 0

    name = "mixture"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.components >= 1, "components ≥ 1", "components")
        self.require(self.deviation >= 0, "deviation ≥ 0", "deviation")
        self.require(self.noise > 0, "noise > 0", "noise")
        self.require(0 <= self.centres_seed < 2**63, "a centres_seed ≥ 0", "centres_seed")

    @property
    def centres(self) -> Float[Tensor, "components p"]:
        generator = torch.Generator().manual_seed(self.centres_seed)
        return normal(generator, self.components, self.features) / sqrt(self.features)

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = normal(generator, batch, points, self.features)
        which = torch.randint(self.components, (batch,), generator=generator)
        apart = normal(generator, batch, self.features) / sqrt(self.features)
        w = self.centres[which] + self.deviation * apart
        return x, x @ w[:, :, None] + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, which averages ridge regressions towards each centre by their evidence.

        With τ² the variance of a weight, r_m = y − Φc_m and A = τ²ΦᵀΦ + noise²·I: w_m = c_m + τ²A⁻¹Φᵀr_m,
        and the log evidence is −½ (|r_m|² − τ² r_mᵀΦA⁻¹Φᵀr_m)/noise², up to terms that all components share.
        """
        phi, y = prompt.phi.double(), prompt.y.double()
        spread = self.deviation**2 / self.features
        apart = y - phi @ self.centres.T
        right = phi.mT @ apart
        system = spread * phi.mT @ phi + self.noise**2 * torch.eye(
            self.features, dtype=torch.float64
        )
        moved = spread * torch.linalg.solve(system, right)
        evidence = -0.5 * (apart.square().sum(1) - (right * moved).sum(1)) / self.noise**2
        w = averaged(self.centres + moved.mT, evidence)
        return prompt.phi_query.double() @ w[:, :, None]
