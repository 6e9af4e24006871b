"""Predictions for any number of queries in passes of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from ridgeformer.tasks import Prompt

MOST_TOKENS = 1 << 15
"""A pass has about so many tokens, or those of one problem with a query where these are more."""

Predict = Callable[[Prompt], Tensor]
Cost = Callable[[Prompt], int]


def predictions(
    predict: Predict, cost: Cost, phi: np.ndarray, targets: np.ndarray, queries: np.ndarray
) -> np.ndarray:
    """Predictions [problems, q, o] for targets [problems, k, o], all of which share φ [k, p] and queries [q, p].

    `cost` is the number of tokens that a prompt takes.
    """
    parts = [
        torch.cat([predict(part) for part in line], dim=1)
        for line in passes(cost, phi, targets, queries)
    ]
    return torch.cat(parts).double().numpy()


def passes(
    cost: Cost, phi: np.ndarray, targets: np.ndarray, queries: np.ndarray
) -> Iterator[Iterator[Prompt]]:
    """The prompts of the passes: for some problems at a time, some queries after the others."""
    x, y, asked = (torch.from_numpy(np.ascontiguousarray(a)) for a in (phi, targets, queries))

    def prompt(problems: Tensor, rows: Tensor) -> Prompt:
        many = (len(problems), -1, -1)
        return Prompt(x.expand(many), problems, rows.expand(many))

    one, two = (cost(prompt(y[:1], asked[:1].expand(n, -1))) for n in (1, 2))
    # Supports are read again by every pass, so a pass has at least as many queries as they take tokens.
    together = min(len(asked), max(one, MOST_TOKENS - one) // (two - one))
    each = max(1, MOST_TOKENS // (one + together * (two - one)))
    for some in torch.split(y, each):
        yield (prompt(some, rows) for rows in torch.split(asked, together))
