"""Softmax's normaliser as a preconditioner, and the round-off of dividing and multiplying by it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.theory.round_off import UNIT
from ridgeformer.theory.systems import gram


def row_sums(prompt: Prompt, kernel: Kernel) -> Float[Tensor, "batch k"]:
    """D_i = 1 + Σ_j K_ij: the normaliser of a softmax head with a sink of logit 0."""
    sums: Tensor = 1 + gram(prompt, kernel).sum(-1)
    return sums


def row_sum_spectrum_bound(
    sums: Float[Tensor, "batch k"], *, ridge: float
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """spec(D⁻¹A) ⊆ [λ/max_i D_i, max_i (1 + (λ − 1)/D_i)], for a kernel with K_ij ≥ 0."""
    return ridge / sums.amax(-1), (1 + (ridge - 1) / sums).amax(-1)


def normaliser_round_off(
    sums: Tensor, *, tokens: int, features: int, logit: float, unit: float = UNIT["float64"]
) -> Tensor:
    """|fl(D·o) − Kv| ≤ (4n + 2(p + 4)L + 64)·u·D·max|v|, returned for max|v| = 1.

    o = Σ e^{l_i}v_i/D is the output of a softmax head over n tokens. Each logit is a sum of p
    products whose absolute values add up to at most L, and D is the reciprocal of the weight of the
    head's sink.
    """
    return sums * ((4 * tokens + 2 * (features + 4) * logit + 64) * unit)
