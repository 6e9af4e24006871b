"""The optimisers of training runs: AdamW, and Muon with AdamW for what is no matrix of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.training.recipe import TrainingOptions
from ridgeformer.transformer import Transformer

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
"""Muon's usual odd polynomial of degree five, which takes singular values to between about 0.7 and 1.2 in so many
rounds."""

LIKE_ADAM = 0.2
"""The root mean square of an update over the rate, which is about that of AdamW, so that both take the same rates."""


def optimiser_of(model: Transformer, s: TrainingOptions) -> torch.optim.AdamW:
    """Fused AdamW, which applies weight decay to matrices alone; with Muon for the matrices of blocks, if wanted."""
    matrices = [w for name, w in model.blocks.named_parameters() if ".W" in name]
    muon = matrices if s.optimiser == "muon" else []
    chosen = set(muon)
    rest = [w for w in model.parameters() if w not in chosen]
    groups = [
        {"params": [w for w in rest if w.ndim > 1], "weight_decay": s.weight_decay},
        {"params": [w for w in rest if w.ndim <= 1], "weight_decay": 0.0},
    ]
    options: dict[str, Any] = {"lr": s.rate, "betas": (s.beta1, s.beta2), "fused": True}
    if not muon:
        return torch.optim.AdamW(groups, **options)
    return Muon(muon, groups, s.weight_decay, **options)


class Muon(torch.optim.AdamW):
    """Momentum whose matrices are made orthogonal before they are added (Jordan et al., 2024); AdamW for the rest.

    `torch.optim.Muon` takes matrices one by one. A block's heads are matrices, too, and all of one shape are
    multiplied together here, which is faster where they are small.
    """

    def __init__(
        self,
        matrices: Sequence[nn.Parameter],
        rest: Sequence[dict[str, Any]],
        weight_decay: float,
        momentum: float = 0.95,
        **options: Any,
    ) -> None:
        super().__init__(rest, **options)
        self.momentum, self.decay = momentum, weight_decay
        ordered = sorted(matrices, key=lambda w: tuple(w.shape))
        self.stacks = [list(same) for _, same in groupby(ordered, key=lambda w: tuple(w.shape))]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = super().step(closure)
        rate = float(self.param_groups[0]["lr"])
        for stack in self.stacks:
            towards = orthogonal(torch.stack([self.direction(w) for w in stack]))
            size = LIKE_ADAM * max(stack[0].shape[-2:]) ** 0.5
            for weight, update in zip(stack, towards, strict=True):
                weight.mul_(1 - rate * self.decay).sub_(update, alpha=rate * size)
        return loss

    def direction(self, weight: nn.Parameter) -> Tensor:
        """Nesterov's momentum, which looks one step ahead."""
        gradient = weight.grad
        assert gradient is not None
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"].mul_(self.momentum).add_(gradient)
        ahead: Tensor = gradient + self.momentum * momentum
        return ahead


def orthogonal(matrices: Float[Tensor, "*n a b"]) -> Float[Tensor, "*n a b"]:
    """Each matrix with its singular values near 1, by an iteration of products."""
    wide = matrices if matrices.shape[-2] <= matrices.shape[-1] else matrices.mT
    a, b, c = COEFFICIENTS
    x: Tensor = wide / (torch.linalg.matrix_norm(wide, keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide is matrices else x.mT
