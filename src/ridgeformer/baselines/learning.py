"""How learned baselines learn: Adam on a pool of training prompts, with a small budget."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Risk = Callable[[list[Tensor], Tensor], Tensor]
"""The loss of parameters on some prompts of the pool, given by their indices."""


def learn(
    starts: list[list[Tensor]],
    risk: Risk,
    *,
    pool: int,
    updates: int,
    batch: int,
    rate: float,
    generator: torch.Generator,
) -> list[Tensor]:
    """What Adam makes of the best start, on batches of the pool, with a rate that falls to 0 as a cosine.

    What is best is said by the whole pool. If the end is not better than the start, it is the start.
    """
    everything = torch.arange(pool)

    def on_pool(parameters: list[Tensor]) -> float:
        with torch.no_grad():
            return float(risk(parameters, everything))

    start = min(starts, key=on_pool)
    if updates == 0:
        return start
    parameters = [p.clone().requires_grad_() for p in start]
    optimiser = torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    for _ in range(updates):
        rows = torch.randint(pool, (batch,), generator=generator)
        optimiser.zero_grad()
        risk(parameters, rows).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
    end = [p.detach() for p in parameters]
    return end if on_pool(end) < on_pool(start) else start
