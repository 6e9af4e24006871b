"""Quadratic regression on written numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.tasks.numeric import NumericTask
from ridgeformer.tasks.learnable import normal, uniform


@dataclass(frozen=True)
class QuadraticNumbers(NumericTask):
    """y = ±(x − v)² + c, with its vertex v in the domain."""

    name = "quadratic"
    summary = "a quadratic function of a number"

    def observe(
        self, x: Float[Tensor, "batch n p"], generator: torch.Generator
    ) -> Float[Tensor, "batch n"]:
        vertex = uniform(generator, len(x), 1)
        return (x[..., 0] - vertex).square() * normal(generator, len(x), 1).sign()
