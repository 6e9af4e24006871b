"""Regression of sinusoids on written numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import tau

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.language.tasks.numeric import NumericTask
from ridgeformer.tasks.learnable import uniform


@dataclass(frozen=True)
class SinusoidNumbers(NumericTask):
    """y = a·sin(2π(fx + φ)) + c, with one to two periods over the domain."""

    name = "sinusoid"
    summary = "one or two periods of a sine"

    def observe(
        self, x: Float[Tensor, "batch n p"], generator: torch.Generator
    ) -> Float[Tensor, "batch n"]:
        periods, phase = 1 + uniform(generator, len(x), 1), uniform(generator, len(x), 1)
        return (tau * (periods * x[..., 0] + phase)).sin()
