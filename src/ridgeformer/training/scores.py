"""How good a model is on its task: excess risk over the best predictor, on prompts held out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.tasks import LearnableTask, Prompt, Sample, generator_of
from ridgeformer.training.layouts import Layout
from ridgeformer.transformer import Transformer

HELD_OUT = 0x4E1D
"""Sets the seeds of these prompts apart."""


@dataclass(frozen=True)
class Held:
    """Prompts that are not trained on, and what the best predictor says of them."""

    sample: Sample
    best: Tensor

    @staticmethod
    def draw(task: LearnableTask, prompts: int, seed: int, supports: int | None = None) -> Held:
        sample = task.sample(prompts, generator_of(HELD_OUT, seed), supports)
        return Held(sample, task.best(sample.prompt))

    def part(self, chosen: Tensor) -> Held:
        """Some of the prompts."""
        prompt = self.sample.prompt
        few = Prompt(prompt.phi[chosen], prompt.y[chosen], prompt.phi_query[chosen])
        return Held(Sample(few, self.sample.targets[chosen]), self.best[chosen])


def predictions(layout: Layout, model: Transformer, prompt: Prompt, chunk: int = 64) -> Tensor:
    """In float64, a few prompts at a time."""
    dtype = model.config.torch_dtype
    parts = [
        Prompt(*(t[i : i + chunk] for t in (prompt.phi, prompt.y, prompt.phi_query))).to(dtype)
        for i in range(0, len(prompt.phi), chunk)
    ]
    with torch.inference_mode():
        return torch.cat([layout.predict(model, part) for part in parts]).double()


def score(layout: Layout, model: Transformer, held: Held) -> dict[str, float]:
    """Mean squared errors, and the excess risk (MSE − best)/(Var y − best).

    The numerator is the mean of (f − f_best)², which has the same expectation where f_best is the
    posterior mean, and far less noise.
    """
    found, targets = predictions(layout, model, held.sample.prompt), held.sample.targets
    error = float((found - targets).square().mean())
    best = float((held.best - targets).square().mean())
    apart = float((found - held.best).square().mean())
    spread = float((targets - targets.mean()).square().mean())
    return {"mse": error, "best": best, "excess": apart / (spread - best)}
