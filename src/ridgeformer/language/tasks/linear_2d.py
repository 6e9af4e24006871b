"""Linear regression on pairs of written numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.tasks.numeric import NumericTask
from ridgeformer.tasks.learnable import normal


@dataclass(frozen=True)
class LinearPairs(NumericTask):
    """y = ⟨w, x⟩ + b with a direction w that is uniform on the circle."""

    name = "linear-2d"
    summary = "a linear function of two numbers"
    dimensions = 2

    def observe(
        self, x: Float[Tensor, "batch n p"], generator: torch.Generator
    ) -> Float[Tensor, "batch n"]:
        return (x @ normal(generator, len(x), 2, 1))[..., 0]
