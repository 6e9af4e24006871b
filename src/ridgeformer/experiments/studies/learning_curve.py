"""The learning curve of one forward pass: a compiled decoder beside exact ridge regression, per prefix.

Tokens are x₁, (x₁, y₁), x₂, … as decoders are trained on, and each x is predicted from the pairs before
it. The targets are linear with noise, so that ridge regression with λ = noise²·p on the same pairs is
the best predictor there is, at every prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import Exact, LinearAttention, compile, largest_eigenvalue
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.learning_curve_page import (
    BOUND,
    NOTHING,
    RIDGE,
    after,
    learning_curve_page,
)
from ridgeformer.kernels import Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, GradientDescent, Solver, krr
from ridgeformer.tasks import LinearRegression, Prompt
from ridgeformer.tasks.learnable import generator_of
from ridgeformer.theory import feature_cg_prediction_bound, prefix_prompts

FEATURES, PAIRS, NOISE, CONDITION = 16, 48, 0.3, 30.0
STEPS = (1, 2, 4, 8)
"""Steps of conjugate gradients after which the decoder is read."""
SOLVERS: tuple[tuple[Solver, tuple[int, ...]], ...] = (
    (ConjugateGradient(), STEPS),
    (GradientDescent(), STEPS[-1:]),
)

MEASURES = {
    "error": "squared error at the x that follows the pairs, ÷ the variance of y",
    "excess": "error − that of exact ridge regression on the same pairs",
    "distance": "|prediction − exact ridge regression's| at the x that follows the pairs",
    "largest distance": "the largest such distance over prompts, at any number of pairs",
    "bound": "√(φᵀ(G+λI)⁻¹φ)·2((√κ−1)/(√κ+1))^t·‖w*‖ of the pairs, mean over prompts",
    "parameters": "the parameters of the decoder",
    "layers": "its layers",
}


LAMBDA = NOISE**2 * FEATURES
"""The λ with which ridge regression is the best predictor of the task."""


def task() -> LinearRegression:
    plain = LinearRegression(
        features=FEATURES, supports=PAIRS, queries=1, condition=CONDITION, noise=NOISE
    )
    return plain.slices()[f"κ = {CONDITION:g}"]  # type: ignore[return-value]


def curve(values: Tensor, supports: int) -> Tensor:
    """What belongs to the prefixes of each prompt, [batch, prefixes], the queries after the first left out."""
    return values[:, : supports + 1, 0]


@lru_cache(maxsize=1)
def drawn(prompts: int, seed: int) -> tuple[Prompt, Tensor, Tensor]:
    """Prompts, what ridge regression predicts at every prefix, and what is to be predicted there."""
    sample = task().sample(prompts, generator_of(seed))
    prompt = sample.prompt
    target = torch.cat([prompt.y, sample.targets], dim=1)[..., 0]
    exact = krr(prefix_prompts(prompt), ridge=LAMBDA).reshape(target.shape)
    return prompt, exact, target


def measure_ridge(out: Collector) -> None:
    """The best predictor and none at all."""
    _, exact, target = drawn(out.prompts, out.seed)
    add_curve(out, "error", RIDGE, errors(exact, target), True)
    add_curve(out, "error", NOTHING, errors(torch.zeros_like(exact), target), True)


def errors(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square() / (1 + NOISE**2)


def add_curve(
    out: Collector, measure: str, method: str, values: Tensor, control: bool = False
) -> None:
    for pairs, column in enumerate(values.T):
        out.add(measure, method, column, control, pairs=pairs)


def measure_decoder(solver: Solver, steps: Sequence[int], out: Collector) -> None:
    """One decoder, read after some of its steps, in one pass."""
    prompt, exact, target = drawn(out.prompts, out.seed)
    most = float(largest_eigenvalue(prompt, Linear()).max())
    to = LinearAttention(most, Exact(), causal=True, every_prefix=True)
    model = compile(solver, features=FEATURES, steps=max(steps), ridge=LAMBDA, to=to)
    found = trajectory(model, prompt, prefixes=True).predictions
    bound = feature_cg_prediction_bound(prefix_prompts(prompt), ridge=LAMBDA, steps=max(steps))
    size = sum(weight.numel() for weight in model.transformer.parameters())
    out.exact("parameters", solver.name, size, steps=max(steps))
    out.exact("layers", solver.name, model.transformer.config.n_layers, steps=max(steps))
    for t in steps:
        name, predicted = after(solver.name, t), curve(found[t], prompt.supports)
        distance = (predicted - exact).abs()
        add_curve(out, "error", name, errors(predicted, target))
        add_curve(out, "excess", name, errors(predicted, target) - errors(exact, target))
        add_curve(out, "distance", name, distance)
        out.exact("largest distance", name, float(distance.max()), steps=t)
        if isinstance(solver, ConjugateGradient):
            add_curve(out, "bound", BOUND.format(t), bound[t].reshape(exact.shape), True)


class LearningCurve(StudyInParts):
    name = "learning-curve"
    summary = "A compiled decoder beside exact ridge regression, at every prefix of one pass."
    prompts = 256
    seconds = (1.5, 0.075)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        return [measure_ridge, *(partial(measure_decoder, *case) for case in SOLVERS)]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "features": FEATURES,
            "pairs": PAIRS,
            "noise": NOISE,
            "condition": CONDITION,
            "ridge": task().ridge,
            "steps": list(STEPS),
            "tokens": 2 * PAIRS + 1,
        }

    def page(self, finding: Finding) -> Page:
        return learning_curve_page(finding)
