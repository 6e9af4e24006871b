"""Gradient descent on the supports of the prompt, with a learned preconditioner for every step."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.gradient_descent import scalar
from ridgeformer.baselines.learned_steps import LearnedSteps


@dataclass(frozen=True, eq=False)
class LearnedPreconditioners(LearnedSteps):
    """w_{t+1} = w_t − P_t ∇L(w_t) on the raw features, with learned p×p matrices P_t.

    T layers of linear self-attention can run this method, and they learn to (Ahn, Cheng, Daneshmand,
    Sra 2023). Learning starts at scalar preconditioners.
    """

    name = "gd-preconditioned"
    label = "Gradient descent, learned preconditioners"

    def first(self, width: float, features: int) -> Tensor:
        return scalar(super().first(width, features), features)

    def spread(self, learned: Tensor, features: int) -> Float[Tensor, "t p p"]:
        return learned
