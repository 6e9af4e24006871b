"""The same function with its residual stream in another basis.

Without norms, a transformer reads its residual stream only through matrices, and writes to it only through
matrices. So the stream may be kept as x·Q for any orthogonal matrix Q: whatever writes is multiplied by Q, and
whatever reads by Qᵀ. Predictions stay the same, up to round-off, and what was a channel becomes a direction.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.transformer.model import Transformer
from ridgeformer.types import Refusal

WRITES = (
    "embed.W",
    "embed.b",
    "pos",
    "registers",
    "attn.W_O",
    "attn.b_O",
    "mlp.W_out",
    "mlp.b_out",
)
"""Parameters whose last axis is the residual stream."""

READS = ("attn.W_Q", "attn.W_K", "attn.W_V", "mlp.W_in", "mlp.W_gate", "unembed.W")
"""Parameters whose last axis but one is the residual stream."""


def random_basis(d_model: int, seed: int) -> Float[Tensor, "d_model d_model"]:
    """An orthogonal matrix, uniform among all of them (Mezzadri 2007)."""
    generator = torch.Generator().manual_seed(seed)
    q, r = torch.linalg.qr(torch.randn(d_model, d_model, generator=generator, dtype=torch.float64))
    basis: Tensor = q * r.diagonal().sign()
    return basis


def rotated(transformer: Transformer, basis: Float[Tensor, "d_model d_model"]) -> Transformer:
    """A transformer whose stream at every site is that of `transformer` times `basis`.

    Its predictions are the same up to round-off. Norms are refused, since they do not commute with `basis`, and so
    are sinusoidal positions, which no weight can turn.
    """
    config = transformer.config
    if config.norm != "none" or config.positional == "sinusoidal":
        raise Refusal(
            "Only a model with norm none and without sinusoidal positions is the same in another basis; "
            f"this one has norm {config.norm} and positional {config.positional}."
        )
    if basis.shape != (config.d_model, config.d_model) or not orthogonal(basis):
        raise Refusal(
            f"The basis must be an orthogonal matrix [{config.d_model}, {config.d_model}]; "
            f"got {list(basis.shape)}."
        )
    turned = deepcopy(transformer).requires_grad_(False)
    for name, weight in turned.named_parameters():
        wide, before = basis.double(), weight.double()
        part = ".".join(name.split(".")[-2:])  # without the number of the block
        if part in WRITES:
            weight.copy_(before @ wide)
        elif part in READS:
            weight.copy_(wide.mT @ before)
    return turned


def orthogonal(basis: Tensor) -> bool:
    eye = torch.eye(len(basis), dtype=torch.float64)
    return torch.allclose(basis.double().mT @ basis.double(), eye, rtol=0, atol=1e-10)
