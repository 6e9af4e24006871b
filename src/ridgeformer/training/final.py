"""The scores of a finished model, with intervals, which are saved with it and listed in the zoo."""

from __future__ import annotations

from typing import Any

from ridgeformer.tasks import LearnableTask
from ridgeformer.training.layouts import Layout
from ridgeformer.training.scores import Held, errors, excess, predictions
from ridgeformer.transformer import Transformer

PROMPTS = 2048
"""Every score is measured on this many prompts."""

FEWER = (4, 8, 16)
"""A model is scored with these numbers of supports, besides the number that its task has."""

SEED = 1_000_000
"""This seed draws prompts that neither training nor its periodic evaluation sees."""


def final_scores(
    layout: Layout, model: Transformer, task: LearnableTask, prompts: int = PROMPTS
) -> dict[str, Any]:
    """Excess risks by number of supports and, for a mixed task, by its parts."""

    def score(part: LearnableTask, supports: int) -> dict[str, float | None]:
        held = Held.draw(part, prompts, SEED, supports)
        above = excess(predictions(layout, model, held.sample.prompt), held, part.exact)
        best = float(errors(held.best, held.sample.targets).mean())
        return {"excess": above.mean, "low": above.low, "high": above.high, "best": best}

    sizes = [*(k for k in FEWER if k < task.supports), task.supports]
    scores: dict[str, Any] = {"by supports": {str(k): score(task, k) for k in sizes}}
    if parts := task.slices():
        scores["by part"] = {name: score(part, task.supports) for name, part in parts.items()}
    return scores
