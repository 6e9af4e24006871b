"""Where one softmax head, the Nadaraya–Watson smoother, differs from kernel ridge regression.

Targets are drawn from the kernel itself, so that KRR with that kernel and λ = noise² is the best
predictor there is: the smoother can at most come close. With another ridge or temperature KRR has
no such right, and the study says so where it loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import SoftmaxAttention, compile
from ridgeformer.experiments.finding import Collector, Finding, Page, Progress
from ridgeformer.experiments.studies.base import Study
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


@dataclass(frozen=True)
class Family:
    """Kernels of one kind at every temperature τ."""

    kernel: Callable[[float], Kernel]
    similarity: Callable[[Tensor, Tensor], Tensor]
    """τ·log k(x, x'), up to a number that is the same for all supports."""


FAMILIES = {
    "exponential": Family(Exponential, lambda x, other: x @ other.mT),
    "gaussian": Family(
        lambda temperature: Gaussian(temperature**0.5),
        lambda x, other: -0.5 * torch.cdist(x, other).square(),
    ),
}

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


@dataclass(frozen=True)
class Case:
    """One setting: where targets come from, and the kernel and ridge that both methods use."""

    sweep: str
    kernel: str
    value: float
    task: KernelDraw
    temperature: float = TEMPERATURE
    ridge: float = NOISE**2

    @property
    def setting(self) -> dict[str, float | str]:
        return {
            "sweep": self.sweep,
            "value": self.value,
            "kernel": self.kernel,
            "features": self.task.features,
            "copies": self.task.copies,
            "temperature": self.temperature,
            "ridge": self.ridge,
        }


def task(kernel: str, features: int = FEATURES, copies: int = 0) -> KernelDraw:
    """Features of expected squared norm NORM², whatever their number."""
    return KernelDraw(
        kernel=FAMILIES[kernel].kernel(TEMPERATURE), features=features, supports=SUPPORTS, queries=QUERIES,
        scale=NORM / features**0.5, noise=NOISE, copies=copies,
    )  # fmt: skip


SWEEPS: dict[str, tuple[tuple[float, ...], Callable[[Case, float], Case]]] = {
    "dimension": (
        (2, 4, 8, 16, 32, 64, 128),
        lambda case, p: replace(case, task=task(case.kernel, features=int(p))),
    ),
    # Below 0.02 the exponential kernel leaves float64, which only the smoother could survive.
    "temperature": (
        (0.02, 0.05, 0.1, 0.3, 1, 3, 10, 100),
        lambda case, t: replace(case, temperature=t),
    ),
    "ridge": (
        (1e-8, 1e-6, 1e-4, 1e-2, NOISE**2, 1, 10, 100),
        lambda case, ridge: replace(case, ridge=ridge),
    ),
    "copies": (
        (0, 8, 16, 32, 48, 60),
        lambda case, m: replace(case, task=task(case.kernel, copies=int(m))),
    ),
}


def cases() -> list[Case]:
    return [
        change(Case(sweep, kernel, value, task(kernel)), value)
        for sweep, (values, change) in SWEEPS.items()
        for kernel in FAMILIES
        for value in values
    ]


def similarity(kernel: str, prompt: Prompt) -> Float[Tensor, "batch q k"]:
    """τ·log k(x, x_j) of every query and support, up to a number that supports share."""
    return FAMILIES[kernel].similarity(prompt.phi_query, prompt.phi)


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
class Hindsight:
    """The best that a softmax block does when it may choose with the truth in hand."""

    smoother: Tensor
    temperature: float
    two_heads: Tensor
    """ȳ + gain·(smoother − ȳ): the smoother's head, one that attends evenly, and free weights."""
    two_heads_temperature: float
    gain: float


def hindsight(
    similar: Float[Tensor, "batch q k"], prompt: Prompt, truth: Float[Tensor, "batch q r"]
) -> Hindsight:
    """One temperature, and one gain by least squares, for all prompts of a setting."""
    mean = prompt.y.mean(1, keepdim=True)
    target = (truth - mean) / truth.std(1, correction=0, keepdim=True)
    one: list[tuple[float, float, Tensor]] = []
    two: list[tuple[float, float, float, Tensor]] = []
    for temperature in HINDSIGHT:
        smooth = smoother_weights(similar, temperature) @ prompt.y
        shape = (smooth - mean) / truth.std(1, correction=0, keepdim=True)
        gain = float((shape * target).sum() / shape.square().sum())
        both = mean + gain * (smooth - mean)
        one.append((float(error(smooth, truth).mean()), temperature, smooth))
        two.append((float(error(both, truth).mean()), temperature, gain, both))
    _, temperature, smooth = min(one, key=lambda choice: choice[0])
    _, other, gain, both = min(two, key=lambda choice: choice[0])
    return Hindsight(smooth, temperature, both, other, gain)


def measure_case(case: Case, out: Collector) -> None:
    prompt, truth = case.task.draw_with_truth(out.prompts, out.seed)
    similar = similarity(case.kernel, prompt)
    weights = smoother_weights(similar, case.temperature)
    best = hindsight(similar, prompt, truth)
    kernel = FAMILIES[case.kernel].kernel(case.temperature)
    nearest = similar.argmax(-1, keepdim=True)
    ridge = krr(prompt, ridge=case.ridge, kernel=kernel)
    smoothers = {
        SMOOTHER: weights @ prompt.y,
        BEST: best.smoother,
        TWO_HEADS: best.two_heads,
    }
    others = {
        KRR: ridge,
        MATCHED: krr(prompt, ridge=NOISE**2, kernel=case.task.kernel),
        MEAN: prompt.y.mean(1, keepdim=True).expand_as(truth),
        NEAREST: prompt.y.gather(1, nearest),
    }

    def add(measure: str, method: str, values: Tensor) -> None:
        out.add(measure, method, values.double(), method not in (SMOOTHER, KRR), **case.setting)

    for method, prediction in (smoothers | others).items():
        add("error", method, error(prediction, truth))
        add("rank", method, rank_correlation(prediction[..., 0], truth[..., 0]))
    for method, prediction in smoothers.items():
        add("excess", method, error(prediction, truth) - error(ridge, truth))
        add("agreement", method, rank_correlation(prediction[..., 0], ridge[..., 0]))
    add("supports in use", SMOOTHER, (1 / weights.square().sum(-1)).mean(-1))
    condition = condition_number(prompt, ridge=case.ridge, kernel=kernel)
    add("log10 condition", KRR, condition.log10())
    for measure, method, value in (
        ("best temperature", BEST, best.temperature),
        ("best temperature", TWO_HEADS, best.two_heads_temperature),
        ("best gain", TWO_HEADS, best.gain),
    ):
        out.exact(measure, method, value, True, **case.setting)


def measure_head(out: Collector) -> None:
    """A real softmax head against the smoother, and CG on the way to KRR, on the same prompts."""
    case = Case("head", "exponential", 0.0, task("exponential"))
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
    out.exact("head", HEAD, apart, **case.setting)
    spread = truth.std(1, correction=0, keepdim=True)

    def distance(method: str, prediction: Tensor, control: bool = False, **more: float) -> None:
        far = ((prediction - exact) / spread).square().mean((1, 2)).sqrt()
        out.add("distance", method, far, control, **case.setting, **more)

    distance(HEAD, head)
    distance(MEAN, prompt.y.mean(1, keepdim=True), True)
    run = solve(ConjugateGradient(), prompt, steps=max(CG_STEPS), ridge=case.ridge, kernel=kernel)
    for step in CG_STEPS:
        distance(f"cg, step {step}", run.predictions[step], step=step)
    system = kernel(prompt.phi, prompt.phi) + case.ridge * torch.eye(SUPPORTS)
    ridge_weights = torch.linalg.solve(system, kernel(prompt.phi, prompt.phi_query)).mT
    for method, used in ((KRR, ridge_weights), (HEAD, weights)):
        out.add("negative weights", method, (used < 0).double().mean((1, 2)), **case.setting)


class Smoother(Study):
    name = "smoother"
    summary = "One softmax head (Nadaraya–Watson) beside kernel ridge regression."
    prompts = 128

    def measure(self, prompts: int, seed: int, progress: Progress) -> Finding:
        out = Collector(prompts, seed)
        measure_head(out)
        for case in progress(cases()):
            measure_case(case, out)
        settings = {
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
        return Finding(self.name, seed, prompts, settings, MEASURES, out.numbers)

    def page(self, finding: Finding) -> Page:
        return smoother_page(finding)
