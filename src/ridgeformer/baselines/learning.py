"""The optimiser of learned baselines: Adam on a pool of training prompts, for a few hundred updates."""

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
    """Runs Adam from the best of several starts, on batches of the pool, with a cosine decay of the rate.

    The risk on the whole pool decides which start is best, and whether the end is better than that
    start; if it is not, the start is returned.
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
