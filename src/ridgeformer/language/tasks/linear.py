"""Linear regression on written numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.tasks.numeric import NumericTask
from ridgeformer.tasks.learnable import normal


@dataclass(frozen=True)
class LinearNumbers(NumericTask):
    """y = ax + b, rising or falling."""

    name = "linear"
    summary = "a linear function of a number"

    def observe(
        self, x: Float[Tensor, "batch n p"], generator: torch.Generator
    ) -> Float[Tensor, "batch n"]:
        return x[..., 0] * normal(generator, len(x), 1).sign()
