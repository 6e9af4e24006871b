"""Scores of a finished model, with intervals: what its saved file and the zoo say of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ridgeformer.tasks import LearnableTask
from ridgeformer.training.layouts import Layout
from ridgeformer.training.scores import Held, predictions
from ridgeformer.transformer import Transformer

PROMPTS = 2048
RESAMPLES = 1000
FEWER = (4, 8, 16)
SEED = 1_000_000
"""Of prompts that neither training nor its periodic evaluation sees."""


def excess_interval(found: Tensor, held: Held, seed: int = 0) -> dict[str, float]:
    """Excess risk with a 95 % bootstrap interval over prompts."""
    targets = held.sample.targets
    apart, best, spread = (
        v.square().mean((1, 2))
        for v in (found - held.best, held.best - targets, targets - targets.mean())
    )
    generator = torch.Generator().manual_seed(seed)
    again = torch.randint(len(apart), (RESAMPLES, len(apart)), generator=generator)
    drawn = apart[again].mean(1) / (spread[again].mean(1) - best[again].mean(1))
    low, high = drawn.quantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype)).tolist()
    value = float(apart.mean() / (spread.mean() - best.mean()))
    return {"excess": value, "low": low, "high": high, "best": float(best.mean())}


def final_scores(
    layout: Layout, model: Transformer, task: LearnableTask, prompts: int = PROMPTS
) -> dict[str, Any]:
    """By number of supports."""
    sizes = [*(k for k in FEWER if k < task.supports), task.supports]
    scores = {}
    for supports in sizes:
        held = Held.draw(task, prompts, SEED, supports)
        found = predictions(layout, model, held.sample.prompt)
        scores[str(supports)] = excess_interval(found, held)
    return scores
