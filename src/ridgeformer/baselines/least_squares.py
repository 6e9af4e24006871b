"""Least squares: the w of least norm among those that fit the supports best."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline
from ridgeformer.tasks import Prompt


@dataclass(frozen=True)
class LeastSquares(Baseline):
    """w = Φ⁺y on the raw features, with fewer supports than features too. It takes nothing from a task."""

    name = "least-squares"
    label = "Least squares"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        prompt = prompt.to(torch.float64)
        # gelsd cuts singular values that are round-off, where a QR would divide by them.
        w: Tensor = torch.linalg.lstsq(prompt.phi, prompt.y, driver="gelsd").solution
        return prompt.phi_query @ w
