"""The system in feature space, (ΦᵀΦ + λI) w = Φᵀy, for solvers written for the dual one."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.kernels import Kernel, Linear
from ridgeformer.solvers.machine import EagerMachine, Interval
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


class FeatureMachine(EagerMachine):
    """Vectors are [batch, p, r]: what a dual solver does with y and K, it does with Φᵀy and ΦᵀΦ.

    Methods with fixed coefficients predict as in the dual space. Adaptive ones have other iterates.
    """

    def __init__(
        self, prompt: Prompt, kernel: Kernel, ridge: float, interval: Interval | None = None
    ) -> None:
        features = kernel.dot_product(prompt.features)
        if features is None:
            raise Refusal(
                f"The {kernel.name} kernel is no dot product of finitely many features: it has no feature "
                "space to solve in."
            )
        columns, self.at_queries = features(prompt.phi).mT, features(prompt.phi_query)
        nowhere = torch.zeros_like(columns[:, :1])  # predictions are not products with ΦᵀΦ
        swapped = Prompt(columns, columns @ prompt.y, nowhere)
        super().__init__(swapped, Linear(), ridge, interval=interval)

    def predict(self, alpha: Tensor) -> Tensor:
        """u(x)ᵀw at the queries."""
        return self.at_queries @ alpha
