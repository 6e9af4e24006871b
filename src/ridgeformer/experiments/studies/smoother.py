"""Where one softmax head, the Nadaraya–Watson smoother, differs from kernel ridge regression.

Targets are drawn from the kernel itself, so that KRR with that kernel and λ = noise² is the best
predictor there is: the smoother can at most come close. With another ridge or temperature KRR has
no such right, and the study says so where it loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import SoftmaxAttention, compile
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.smoother_page import (
    BEST,
    HEAD,
    KRR,
    MATCHED,
    MEAN,
    NEAREST,
    SMOOTHER,
    TWO_HEADS,
    smoother_page,
)
from ridgeformer.kernels import Exponential, Gaussian, Kernel
from ridgeformer.solvers import ConjugateGradient, NadarayaWatson, condition_number, krr, solve
from ridgeformer.statistics import rank_correlation
from ridgeformer.tasks import KernelDraw, Prompt

SUPPORTS, QUERIES, FEATURES, NORM, NOISE = 64, 64, 4, 1.0, 0.3
TEMPERATURE = 1.0
"""Of the kernel that the targets are drawn from: τ, or ℓ² of the Gaussian kernel."""

HINDSIGHT = tuple(10 ** (e / 4) for e in range(-8, 9))
"""The temperatures from which the smoother's best is chosen, knowing the truth."""

CG_STEPS = (1, 2, 4, 8, 16, 32, 64)


FAMILIES: dict[str, Callable[[float], Kernel]] = {
    "exponential": Exponential,
    "gaussian": lambda temperature: Gaussian(temperature**0.5),
}
"""Kernels of one kind at every temperature τ."""

MEASURES = {
    "error": "RMSE over the queries of a prompt ÷ standard deviation of the clean target there",
    "rank": "Spearman correlation with the clean target over the queries of a prompt",
    "agreement": "Spearman correlation with KRR's predictions over the queries of a prompt",
    "excess": "error − KRR's error on the same prompt",
    "distance": "RMSE to KRR's predictions ÷ standard deviation of the clean target",
    "supports in use": "1 / Σ w², mean over queries, for the smoother's weights w",
    "log10 condition": "log10 cond(K + λI)",
    "negative weights": "share of support weights below zero, where predictions are Σ w_j y_j",
    "best temperature": "temperature with the least mean error over these prompts, in hindsight",
    "best gain": "gain with the least squared error over these prompts, in hindsight",
    "head": "largest |one softmax head − smoother| ÷ largest |y|, over prompts and queries",
}


SWEEPS: dict[str, tuple[tuple[Any, ...], str]] = {
    "dimension": ((2, 4, 8, 16, 32, 64, 128), "features"),
    # Below 0.02 the exponential kernel leaves float64, which only the smoother could survive.
    "temperature": ((0.02, 0.05, 0.1, 0.3, 1, 3, 10, 100), "temperature"),
    "ridge": ((1e-8, 1e-6, 1e-4, 1e-2, NOISE**2, 1, 10, 100), "ridge"),
    "copies": ((0, 8, 16, 32, 48, 60), "copies"),
}
"""The values of each sweep, and the field of `Case` that takes them."""


@dataclass(frozen=True)
class Case:
    """One setting: where targets come from, and the kernel and ridge that both methods use."""

    sweep: str
    value: float
    kernel: str
    features: int = FEATURES
    copies: int = 0
    temperature: float = TEMPERATURE
    ridge: float = NOISE**2

    @property
    def task(self) -> KernelDraw:
        """Features of expected squared norm NORM², whatever their number."""
        return KernelDraw(
            kernel=FAMILIES[self.kernel](TEMPERATURE), features=self.features, supports=SUPPORTS,
            queries=QUERIES, scale=NORM / self.features**0.5, noise=NOISE, copies=self.copies,
        )  # fmt: skip


def cases() -> list[Case]:
    return [
        Case(sweep, value, kernel, **{field: value})
        for sweep, (values, field) in SWEEPS.items()
        for kernel in FAMILIES
        for value in values
    ]


def similarity(kernel: str, prompt: Prompt) -> Float[Tensor, "batch q k"]:
    """τ·log k(x, x_j) of every query and support, up to a number that supports share."""
    x, supports = prompt.phi_query, prompt.phi
    return x @ supports.mT if kernel == "exponential" else -0.5 * torch.cdist(x, supports).square()


def smoother_weights(
    similar: Float[Tensor, "batch q k"], temperature: float
) -> Float[Tensor, "batch q k"]:
    """k_j / Σ k_j by a softmax, which does not overflow where the kernel itself does."""
    return (similar / temperature).softmax(-1)


def error(
    prediction: Float[Tensor, "batch q r"], truth: Float[Tensor, "batch q r"]
) -> Float[Tensor, " batch"]:
    spread = truth.std(1, correction=0)
    return ((prediction - truth).square().mean(1).sqrt() / spread).mean(-1)


@dataclass(frozen=True)
class Choice:
    """What a softmax block predicts with one temperature, and one gain, for all prompts of a setting."""

    prediction: Tensor
    temperature: float
    gain: float = 1.0


def hindsight(
    similar: Float[Tensor, "batch q k"], prompt: Prompt, truth: Float[Tensor, "batch q r"]
) -> tuple[Choice, Choice]:
    """The best of the smoother, and of two heads, when they may choose with the truth in hand.

    Two heads predict ȳ + gain·(smoother − ȳ), with the gain of least squares: the smoother's head, one
    that attends evenly, and free weights.
    """
    mean, spread = prompt.y.mean(1, keepdim=True), truth.std(1, correction=0, keepdim=True)
    target = (truth - mean) / spread
    one, two = [], []
    for temperature in HINDSIGHT:
        smooth = smoother_weights(similar, temperature) @ prompt.y
        shape = (smooth - mean) / spread
        gain = float((shape * target).sum() / shape.square().sum())
        one.append(Choice(smooth, temperature))
        two.append(Choice(mean + gain * (smooth - mean), temperature, gain))

    def loss(choice: Choice) -> float:
        return float(error(choice.prediction, truth).mean())

    return min(one, key=loss), min(two, key=loss)


def measure_case(case: Case, out: Collector) -> None:
    prompt, truth = case.task.draw_with_truth(out.prompts, out.seed)
    similar = similarity(case.kernel, prompt)
    weights = smoother_weights(similar, case.temperature)
    one, two = hindsight(similar, prompt, truth)
    kernel = FAMILIES[case.kernel](case.temperature)
    ridge = krr(prompt, ridge=case.ridge, kernel=kernel)
    smoothers = {SMOOTHER: weights @ prompt.y, BEST: one.prediction, TWO_HEADS: two.prediction}
    others = {
        KRR: ridge,
        MATCHED: krr(prompt, ridge=NOISE**2, kernel=case.task.kernel),
        MEAN: prompt.y.mean(1, keepdim=True).expand_as(truth),
        NEAREST: prompt.y.gather(1, similar.argmax(-1, keepdim=True)),
    }

    def add(measure: str, method: str, values: Tensor) -> None:
        out.add(measure, method, values.double(), method not in (SMOOTHER, KRR), **asdict(case))

    for method, prediction in (smoothers | others).items():
        add("error", method, error(prediction, truth))
        add("rank", method, rank_correlation(prediction[..., 0], truth[..., 0]))
    for method, prediction in smoothers.items():
        add("excess", method, error(prediction, truth) - error(ridge, truth))
        add("agreement", method, rank_correlation(prediction[..., 0], ridge[..., 0]))
    add("supports in use", SMOOTHER, (1 / weights.square().sum(-1)).mean(-1))
    condition = condition_number(prompt, ridge=case.ridge, kernel=kernel)
    add("log10 condition", KRR, condition.log10())
    out.exact("best temperature", BEST, one.temperature, True, **asdict(case))
    out.exact("best temperature", TWO_HEADS, two.temperature, True, **asdict(case))
    out.exact("best gain", TWO_HEADS, two.gain, True, **asdict(case))


def measure_head(out: Collector) -> None:
    """A real softmax head against the smoother, and CG on the way to KRR, on the same prompts."""
    case = Case("head", 0.0, "exponential")
    prompt, truth = case.task.draw_with_truth(out.prompts, out.seed)
    weights = smoother_weights(similarity(case.kernel, prompt), case.temperature)
    smooth = weights @ prompt.y
    kernel = Exponential(case.temperature)
    exact = krr(prompt, ridge=case.ridge, kernel=kernel)
    one_head = compile(
        NadarayaWatson(), features=prompt.features, kernel=kernel,
        to=SoftmaxAttention(products=None),
    )  # fmt: skip
    head = one_head.predict(prompt)
    apart = float((head - smooth).abs().max() / prompt.y.abs().max())
    out.exact("head", HEAD, apart, **asdict(case))
    spread = truth.std(1, correction=0, keepdim=True)

    def distance(method: str, prediction: Tensor, control: bool = False, **more: float) -> None:
        far = ((prediction - exact) / spread).square().mean((1, 2)).sqrt()
        out.add("distance", method, far, control, **asdict(case), **more)

    distance(HEAD, head)
    distance(MEAN, prompt.y.mean(1, keepdim=True), True)
    run = solve(ConjugateGradient(), prompt, steps=max(CG_STEPS), ridge=case.ridge, kernel=kernel)
    for step in CG_STEPS:
        distance(f"cg, step {step}", run.predictions[step], step=step)
    system = kernel(prompt.phi, prompt.phi) + case.ridge * torch.eye(SUPPORTS)
    ridge_weights = torch.linalg.solve(system, kernel(prompt.phi, prompt.phi_query)).mT
    for method, used in ((KRR, ridge_weights), (HEAD, weights)):
        out.add("negative weights", method, (used < 0).double().mean((1, 2)), **asdict(case))


class Smoother(StudyInParts):
    name = "smoother"
    summary = "One softmax head (Nadaraya–Watson) beside kernel ridge regression."
    prompts = 128
    seconds = (2.4, 0.16)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        return [measure_head, *(partial(measure_case, case) for case in cases())]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "supports": SUPPORTS,
            "queries": QUERIES,
            "features": FEATURES,
            "expected squared norm of the features": NORM**2,
            "noise": NOISE,
            "temperature": TEMPERATURE,
            "ridge": NOISE**2,
            "temperatures tried in hindsight": list(HINDSIGHT),
            "sweeps": {name: list(values) for name, (values, _) in SWEEPS.items()},
        }

    def page(self, finding: Finding) -> Page:
        return smoother_page(finding)
