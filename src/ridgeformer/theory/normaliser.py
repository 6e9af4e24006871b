"""Softmax's normaliser as a preconditioner, and the round-off of dividing and multiplying by it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.theory.round_off import UNIT, accumulated
from ridgeformer.theory.systems import gram

RECIPROCAL = 12.0
"""The relative error of reciprocals of compiled models, in units of round-off: `reciprocal_round_off_bound`."""


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
    weighted: Tensor,
    *,
    tokens: int,
    roundings: int,
    logit: Tensor | float,
    reciprocal: float = RECIPROCAL,
    unit: float = UNIT["float64"],
) -> Tensor:
    """|fl(D·o) − Kv| ≤ ((1 + γ_{n+9})(1 + ρ)·e^{γ_{s+3}L} − 1)·Σ_i K_i|v_i|.

    o = Σ e^{l_i}v_i/D is the output of a softmax head over n tokens, and D comes from the weight of the head's
    sink by a reciprocal that is right up to `reciprocal` = ρ/u units of itself. Each logit is computed with an
    error of γ_s times the sizes of its terms, which with those of the sink add up to at most L. `weighted` is
    Σ_i K_i|v_i|.
    """
    terms = normaliser_terms(
        weighted, tokens=tokens, roundings=roundings, logit=logit, reciprocal=reciprocal, unit=unit
    )
    return sum(terms.values(), torch.zeros_like(weighted))


def normaliser_terms(
    weighted: Tensor,
    *,
    tokens: int,
    roundings: int,
    logit: Tensor | float,
    reciprocal: float = RECIPROCAL,
    unit: float = UNIT["float64"],
) -> dict[str, Tensor]:
    """What sums, the reciprocal and the logits add to `normaliser_round_off`."""
    in_sums = accumulated(tokens + 9, unit)
    in_reciprocal = (1 + in_sums) * reciprocal * unit
    exponent = torch.as_tensor(logit, dtype=torch.float64) * accumulated(roundings + 3, unit)
    in_logits = (1 + in_sums + in_reciprocal) * torch.expm1(exponent)
    return {
        "sums": weighted * in_sums,
        "reciprocal": weighted * in_reciprocal,
        "logits": weighted * in_logits,
    }
