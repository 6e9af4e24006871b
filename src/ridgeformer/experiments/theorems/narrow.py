"""Compiled models narrower than the features that they read: what is lost, and what no width saves.

A projection U of m rows lies in the embedding, so that the stream keeps Uφ and d_model < p. The kernel
matrix that such a model works with is read from the scores of its own mat-vec head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, LinearAttention, SoftmaxAttention, compile
from ridgeformer.compiler.targets import Target
from ridgeformer.experiments.theorems.base import WIDTH, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.experiments.theorems.ratios import ratios
from ridgeformer.kernels import Exponential, Kernel, Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import normal
from ridgeformer.theory.systems import lengths, spectral
from ridgeformer.transformer import Record
from ridgeformer.transformer.attention import Attention
from ridgeformer.types import Refusal

FEATURES, SUPPORTS, QUERIES = 48, 24, 4
RIDGE, TOP, NORM, TEMPERATURE = 0.5, 30.0, 2.5, 4.0


@dataclass(frozen=True)
class Setting:
    """A kernel, and how models of its projections are made."""

    through: Callable[[Tensor | None], Kernel]
    """The kernel of the features that a projection leaves, or of all of them."""
    to: Target
    widths: tuple[int, ...]
    fast_widths: tuple[int, ...]
    max_norm: float | None = None
    """The norm that features are scaled down to."""
    low_rank: bool = False
    """Whether a kernel matrix of m features has rank m, so that CG ends after m + 1 steps."""

    @property
    def kernel(self) -> Kernel:
        return self.through(None)

    def steps(self, width: int) -> int:
        return width + 3 if self.low_rank else 12


LINEAR = Setting(Linear, LinearAttention(TOP), (2, 4, 8, 12, 16, 20), (3, 12), low_rank=True)
EXPONENTIAL = Setting(
    lambda projection: Exponential(TEMPERATURE, projection),
    SoftmaxAttention(NORM, SUPPORTS),
    (4, 12, 20),
    (4,),
    max_norm=NORM,
)


def orthonormal(rows: Tensor) -> Tensor:
    """Orthonormal rows that span the same space."""
    spanned: Tensor = torch.linalg.qr(rows.mT).Q
    return spanned.mT


@dataclass(frozen=True)
class Family:
    """Prompts whose Φ share their right singular vectors, in one order, but not the singular values.

    The leading m right singular vectors are then the eigen-truncation of every K at once.
    """

    directions: Tensor
    """[k, p], orthonormal rows, the direction of the largest singular value first."""

    @staticmethod
    def drawn(seed: int) -> Family:
        generator = torch.Generator().manual_seed(seed)
        return Family(orthonormal(normal(generator, SUPPORTS, FEATURES)))

    def prompts(self, count: int, seed: int, along: int = 0) -> Prompt:
        """In every other prompt the target and the first query lie along the mode `along`."""
        generator = torch.Generator().manual_seed(seed)
        falling = TOP * 0.7 ** torch.arange(SUPPORTS, dtype=torch.float64)
        # Each eigenvalue lies between 0.75 and 1 of its place: no two of them change places.
        share = torch.rand(count, SUPPORTS, generator=generator, dtype=torch.float64)
        scale = (falling * (0.75 + 0.25 * share)).sqrt()[:, None, :]
        left = torch.linalg.qr(normal(generator, count, SUPPORTS, SUPPORTS)).Q
        phi = (left * scale) @ self.directions
        query = (normal(generator, count, QUERIES, SUPPORTS) * scale) @ self.directions
        query = query / SUPPORTS**0.5 + 0.05 * normal(generator, count, QUERIES, FEATURES)
        weights = normal(generator, count, FEATURES, 1) / FEATURES**0.5
        y = phi @ weights + 0.3 * normal(generator, count, SUPPORTS, 1)
        y[::2] = left[::2, :, along, None]
        query[::2, 0] = self.directions[along]
        return Prompt(phi, y, query)


def leading(family: Family, width: int) -> Tensor:
    """The directions of the largest singular values: for the linear kernel, eigen-truncation."""
    return family.directions[:width]


def unseen(width: int, seed: int) -> Tensor:
    """A projection that knows nothing of the prompts."""
    return orthonormal(normal(torch.Generator().manual_seed(seed), width, FEATURES))


def learned(family: Family, setting: Setting, width: int, seed: int, steps: int) -> Tensor:
    """Gradient descent through ridge regression, on prompts that are not those of the measurement."""
    prompt = family.prompts(16, seed + 3, along=width).inside(NORM)
    target = krr(prompt, ridge=RIDGE, kernel=setting.kernel)
    rows = unseen(width, seed + 2)
    for step in range(steps):
        rows.requires_grad_()
        own = setting.through(orthonormal(rows))
        seen = theory.gram(prompt, own), theory.cross(prompt, own)
        predicted = theory.approximate_prediction(prompt, *seen, ridge=RIDGE)
        (slope,) = torch.autograd.grad((predicted - target).square().mean(), rows)
        rows = rows.detach() - 0.5 * (1 - step / steps) * slope / slope.norm()
    return orthonormal(rows)


def narrow_model(setting: Setting, rows: Tensor, steps: int | None = None) -> CompiledModel:
    """CG on the kernel of the features that the rows of a projection leave."""
    model = compile(
        ConjugateGradient(), features=FEATURES, steps=steps or setting.steps(len(rows)), ridge=RIDGE,
        kernel=setting.through(rows), to=setting.to,
    )  # fmt: skip
    d_model = model.transformer.config.d_model
    if not d_model < FEATURES:
        raise Refusal(f"d_model is {d_model}, not below {FEATURES} features.")
    return model


def own_kernel(model: CompiledModel, stream: Tensor, supports: int) -> tuple[Tensor, Tensor]:
    """K̂ and k̂(x)ᵀ: the scores of the mat-vec head, from the stream that enters its layer.

    Linear attention weighs values by the scores themselves, softmax by their exponentials, here over
    that of the sink.
    """
    matvec = model.heads(role="matvec")[0]
    layer, head = matvec.layer, matvec.head
    attention, config = model.transformer.blocks[layer].attn, model.transformer.config
    assert isinstance(attention, Attention)
    queries, keys = (x[:, head] for x in attention.project(stream, "QK"))
    scores = config.attn_scale * queries @ keys.mT
    if config.attention == "softmax":
        scores = (scores - scores[:, :, supports, None]).exp()
    return scores[:, :supports, :supports], scores[:, supports + 1 :, :supports]


@dataclass(frozen=True)
class NarrowCase:
    """One compiled model and what it read."""

    setting: Setting
    name: str
    width: int
    d_model: int
    prompt: Prompt
    gram: Tensor
    cross: Tensor
    predictions: Tensor
    alpha: Tensor

    @property
    def whole(self) -> Tensor:
        """K, of all features."""
        return theory.gram(self.prompt, self.setting.kernel)

    @property
    def distance(self) -> Tensor:
        """e = ‖K − K̂‖₂"""
        return spectral(self.whole - self.gram)

    @property
    def difference(self) -> Tensor:
        """‖A⁻¹ − Â⁻¹‖₂"""
        return theory.resolvent_difference(self.whole, self.gram, ridge=RIDGE)

    @property
    def bound(self) -> Tensor:
        """Of the difference, from the distance."""
        return theory.resolvent_bound(self.distance, ridge=RIDGE)

    @property
    def least(self) -> Tensor:
        """The least difference of rank m, for the linear kernel."""
        return theory.rank_error(self.prompt, rank=self.width, ridge=RIDGE)


def cases(seed: int, fast: bool) -> Iterator[NarrowCase]:
    """Every kernel, width and projection, each in a model of its own."""
    family = Family.drawn(seed)
    for setting in (LINEAR, EXPONENTIAL):
        for width in setting.fast_widths if fast else setting.widths:
            prompt = family.prompts(8 if fast else 32, seed + 1, along=width)
            if setting.max_norm is not None:
                prompt = prompt.inside(setting.max_norm)
            for name, rows in {
                "leading": leading(family, width),
                "random": unseen(width, seed + 2),
                "learned": learned(family, setting, width, seed, 30 if fast else 150),
            }.items():
                yield measured(setting, name, rows, prompt)


def measured(
    setting: Setting, name: str, rows: Tensor, prompt: Prompt, steps: int | None = None
) -> NarrowCase:
    model = narrow_model(setting, rows, steps)
    layer = model.heads(role="matvec")[0].layer
    site = f"blocks.{layer - 1}.resid_post"
    record = Record.of([site])
    run = trajectory(model, prompt, states=True, edits=[record])
    return NarrowCase(
        setting, name, len(rows), model.transformer.config.d_model, prompt,
        *own_kernel(model, record.values[site], prompt.supports), run.final,
        run.states["alpha"][-1],
    )  # fmt: skip


def told(models_run: list[NarrowCase]) -> str:
    widest, prompts = max(case.d_model for case in models_run), len(models_run[0].prompt.phi)
    return (
        f"{len(models_run)} compiled models of p = {FEATURES} features and d_model ≤ {widest}, {prompts} prompts "
        f"of {SUPPORTS} supports, λ = {RIDGE:g}"
    )


class NarrowTruncation(Theorem):
    name = "narrow-truncation"
    group = WIDTH
    title = "A model narrower than its features loses exactly σ/(λ(λ + σ))"
    states = ("narrow-models",)
    measured = "Models that keep the m leading directions must differ by exactly the lower bound."
    see = "Resolvent differences of compiled models lie on the prediction."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, family, models_run = Measurement(), Family.drawn(seed), []
        for width in LINEAR.fast_widths if fast else LINEAR.widths:
            prompt = family.prompts(8 if fast else 64, seed + 1, along=width)
            case = measured(LINEAR, "leading", leading(family, width), prompt)
            m.at("measured", width, case.difference, case.least, said="theory")
            models_run.append(case)
        return m.outcome(told(models_run), Axes("features kept m", "‖A⁻¹ − Â⁻¹‖₂"))


class NarrowWidth(Theorem):
    name = "narrow-width"
    group = WIDTH
    title = "Every projection pays e/(λ(λ + e)) at most, and σ/(λ(λ + σ)) at least"
    states = ("narrow-models",)
    measured = (
        "Both bounds on the difference of the resolvents, for leading, random and learned directions; "
        "the lower ones for the linear kernel alone."
    )
    see = "Linear kernel: each projection under its bound, and none below the leading directions."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, models_run = Measurement(), list(cases(seed, fast))
        for c in models_run:
            kernel = "linear" if c.setting.low_rank else "exponential"
            part = f"{kernel} kernel, {c.name}, m = {c.width}"
            m.compare(c.difference, c.bound, part=part, reach=0.15)
        m.count(rank_ratios(models_run), part="at least, rank m", reach=NEARLY)
        shown = [c for c in models_run if c.setting.low_rank]
        for c in shown:
            m.draw(c.name, c.width, c.difference)
            m.draw_bound(c.name, c.width, c.bound)
        for c in shown:
            if c.name == "leading":  # all of one width have the same prompts
                m.draw_bound("", c.width, c.least, "least of rank m")
        return m.outcome(told(models_run), Axes("features kept m", "‖A⁻¹ − Â⁻¹‖₂, linear kernel"))


def resolvent_ratios(models_run: list[NarrowCase]) -> np.ndarray:
    return np.concatenate([ratios(c.difference, c.bound, 0.0) for c in models_run])


def rank_ratios(models_run: list[NarrowCase]) -> np.ndarray:
    """σ_{m+1} over e, and the least difference of rank m over the measured one: linear kernel alone."""
    m = Measurement()
    for c in models_run:
        if c.setting.low_rank:
            m.compare(theory.eigenvalue_after(c.prompt, rank=c.width), c.distance)
            m.compare(c.least, c.difference)
    return np.concatenate(m.ratios)


class NarrowQuery(Theorem):
    name = "narrow-query"
    group = WIDTH
    title = "A narrow model's predictions: two terms for its width, one for its depth"
    states = ("narrow-models",)
    measured = (
        "The bound on predictions, for the same models; K̂, k̂ and α_T are read from their heads and "
        "streams."
    )
    see = "Linear kernel: worst error of a prediction against m, each projection under its bound."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, models_run = Measurement(), list(cases(seed, fast))
        for c in models_run:
            error, bound = query_errors(c)
            if c.setting.low_rank:
                m.at(c.name, c.width, error, bound, reach=REACHED[c.name])
                m.draw(f"{c.name}, median", c.width, float(error.median()))
            else:
                m.compare(error, bound, part=f"exponential kernel, {c.name}", reach=0.005)
        for steps in (1, 2):
            alone = query_errors(stopped_early(seed, steps))
            m.compare(*alone, part=f"depth, {steps} steps", reach=NEARLY)
        return m.outcome(told(models_run), Axes("features kept m", "|f_model − f*|, linear kernel"))


REACHED = {"leading": 0.25, "random": 0.15, "learned": 0.005}
"""What each projection must reach of the bound on predictions. Learned ones do better than any bound by norms
alone can say: they reach .0095 to .02, by the seed."""


def stopped_early(seed: int, steps: int) -> NarrowCase:
    """All directions that the supports have, too few steps, and a query along the residual that is left.

    Nothing is lost to the width, so that the term for the depth is all of the bound.
    """
    family = Family.drawn(seed)
    prompt = family.prompts(4, seed + 1)
    run = solve(ConjugateGradient(), prompt, steps=steps, ridge=RIDGE, states=True)
    system = theory.preconditioned_system(prompt, ridge=RIDGE)
    residual = prompt.y - system @ run.states["alpha"][-1]
    along = torch.linalg.pinv(prompt.phi) @ system @ residual
    query = (along / along.norm(dim=1, keepdim=True)).mT
    hard = Prompt(prompt.phi, prompt.y, query)
    return measured(LINEAR, "all", leading(family, SUPPORTS), hard, steps)


def query_errors(case: NarrowCase) -> tuple[Tensor, Tensor]:
    """|f_model − f*| and its bound, [batch, q, r]."""
    exact = krr(case.prompt, ridge=RIDGE, kernel=case.setting.kernel)
    width = theory.query_error_bound(
        case.prompt, case.gram, case.cross, ridge=RIDGE, kernel=case.setting.kernel
    )
    system = case.gram + RIDGE * torch.eye(SUPPORTS, dtype=torch.float64)
    residual = lengths(case.prompt.y - system @ case.alpha, 1)
    weight = lengths(torch.linalg.solve(system, case.cross.mT), 1)
    depth = weight[:, :, None] * residual[:, None, :]
    return (case.predictions - exact).abs(), width + depth
