"""How good a model is on its task: excess risk over the best predictor, on prompts held out."""

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


def errors(
    found: Float[Tensor, "batch q r"], targets: Float[Tensor, "batch q r"]
) -> Float[Tensor, " batch"]:
    """The mean squared error of each prompt."""
    return (found - targets).square().mean((1, 2))


def share(part: Float[Tensor, " batch"], held: Held, seed: int) -> Estimate:
    """Of what the best predictor explains of y, Var y − best; None where that is nothing."""
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


def excess(found: Float[Tensor, "batch q r"], held: Held, exact: bool, seed: int = 0) -> Estimate:
    """(MSE − best)/(Var y − best): 0 for the best predictor, 1 for the mean of y.

    Where the best predictor is Bayes', the numerator is the mean of (f − f_best)², which has the same
    expectation, and far less noise.
    """
    if exact:
        return share(errors(found, held.best), held, seed)
    return excess_from_targets(found, held, seed)


def excess_from_targets(found: Float[Tensor, "batch q r"], held: Held, seed: int = 0) -> Estimate:
    """The same with MSE − best as it was measured. The two differ if `best` is not Bayes' predictor."""
    targets = held.sample.targets
    return share(errors(found, targets) - errors(held.best, targets), held, seed)


def score(layout: Layout, model: Transformer, held: Held, exact: bool) -> dict[str, float]:
    """Mean squared errors of model and best predictor, and the excess risk where it is defined."""
    found, targets = predictions(layout, model, held.sample.prompt), held.sample.targets
    mse, best = (float(errors(f, targets).mean()) for f in (found, held.best))
    above = excess(found, held, exact).mean
    return {"mse": mse, "best": best} | ({} if above is None else {"excess": above})
