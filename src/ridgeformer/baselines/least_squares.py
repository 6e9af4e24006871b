"""Least squares, with the smallest weights among those that fit the supports best."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline
from ridgeformer.tasks import Prompt


@dataclass(frozen=True)
class LeastSquares(Baseline):
    """w = Φ⁺y on the raw features, also with fewer supports than features; there is nothing to fit to a task."""

    name = "least-squares"
    label = "Least squares"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        prompt = prompt.to(torch.float64)
        # gelsd drops singular values that are round-off; a QR factorisation would divide by them.
        w: Tensor = torch.linalg.lstsq(prompt.phi, prompt.y, driver="gelsd").solution
        return prompt.phi_query @ w
