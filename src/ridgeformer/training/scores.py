"""How good a model is on its task: its excess risk over the best predictor, on held-out prompts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.statistics import Estimate, estimate_of
from ridgeformer.tasks import LearnableTask, Prompt, Sample, generator_of
from ridgeformer.training.layouts import Layout
from ridgeformer.transformer import Transformer

HELD_OUT = 0x4E1D
"""This number is part of the prompts' seed, so that no batch shares its random numbers."""


@dataclass(frozen=True)
class Held:
    """Held-out prompts, and the best predictor's predictions for them."""

    sample: Sample
    best: Tensor

    @staticmethod
    def draw(task: LearnableTask, prompts: int, seed: int, supports: int | None = None) -> Held:
        sample = task.sample(prompts, generator_of(HELD_OUT, seed), supports)
        return Held(sample, task.best(sample.prompt))

    def part(self, chosen: Tensor) -> Held:
        """Some of the prompts."""
        return Held(self.sample[chosen], self.best[chosen])


def predictions(layout: Layout, model: Transformer, prompt: Prompt, chunk: int = 64) -> Tensor:
    """The model's predictions in float64 on the CPU; it reads `chunk` prompts at a time, on its own device."""
    dtype = model.config.torch_dtype
    parts = [prompt[i : i + chunk].to(dtype) for i in range(0, len(prompt), chunk)]
    with torch.inference_mode():
        found = [layout.predict(model, part.to(model.device)).cpu() for part in parts]
    return torch.cat(found).double()


def errors(
    predicted: Float[Tensor, "batch q r"], targets: Float[Tensor, "batch q r"]
) -> Float[Tensor, " batch"]:
    """The mean squared error of each prompt."""
    return (predicted - targets).square().mean((1, 2))


def share(part: Float[Tensor, " batch"], held: Held, seed: int) -> Estimate:
    """The mean of `part` as a share of Var y − best, which is what the best predictor explains of y.

    The share is undefined where the best predictor explains nothing.
    """
    targets = held.sample.targets
    columns = [
        part,
        targets.square().mean((1, 2)),
        targets.mean((1, 2)),
        errors(held.best, targets),
    ]

    def ratio(m: Tensor) -> Tensor:
        explained = m[:, 1] - m[:, 2] ** 2 - m[:, 3]
        return m[:, 0] / torch.where(explained > 0, explained, torch.nan)

    return estimate_of(torch.stack(columns, -1), ratio, seed)


def excess(
    predicted: Float[Tensor, "batch q r"], held: Held, exact: bool, seed: int = 0
) -> Estimate:
    """(MSE − best)/(Var y − best): 0 for the best predictor, 1 for the mean of y.

    Where the best predictor is the Bayes predictor (`exact`), the numerator is measured as the mean of
    (f − f_best)², which has the same expectation and far less noise.
    """
    if exact:
        return share(errors(predicted, held.best), held, seed)
    return excess_from_targets(predicted, held, seed)


def excess_from_targets(
    predicted: Float[Tensor, "batch q r"], held: Held, seed: int = 0
) -> Estimate:
    """The excess risk from MSE − best on the targets themselves.

    It agrees with `excess` up to noise if `held.best` is the Bayes predictor.
    """
    targets = held.sample.targets
    return share(errors(predicted, targets) - errors(held.best, targets), held, seed)


def score(layout: Layout, model: Transformer, held: Held, exact: bool) -> dict[str, float]:
    """Mean squared errors of model and best predictor, and the excess risk where it is defined."""
    predicted, targets = predictions(layout, model, held.sample.prompt), held.sample.targets
    mse, best = (float(errors(f, targets).mean()) for f in (predicted, held.best))
    above = excess(predicted, held, exact).mean
    return {"mse": mse, "best": best} | ({} if above is None else {"excess": above})
