"""The instrument on models whose answer is known: what it must say of each, and what it says.

Compiled solvers that have converged must be called kernel ridge regression, with their own λ; compiled Nadaraya–Watson
must be called similarity, and means of nearest supports neighbours. Trained models are only reported: their task's best
predictor is ridge regression, and nobody has told them so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ridgeformer.analysis.in_context import BestRidge, Verdict, View, choose, judge
from ridgeformer.analysis.in_context.choice import RIDGE, SIMILARITIES, SMALL_RIDGE
from ridgeformer.analysis.in_context.verdict import Kind
from ridgeformer.compiler import CompiledModel, LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.identification.planted import Neighbours
from ridgeformer.experiments.language.responses import observe, repeat_supports
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.models import Reading, Subject, subject, zoo
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import GaussianProcess, LearnableTask, LinearRegression, Prompt
from ridgeformer.tasks.learnable import generator_of, uniform

COPIES = 3
PROMPTS = 25


@dataclass(frozen=True)
class Known:
    """A model with its prompts, the kernel of its features, and what is known of it."""

    name: str
    make: Callable[[], Subject]
    task: LearnableTask
    kernel: Kernel
    kind: Kind | None
    """What the instrument must say; None if it is only asked."""
    ridge: float | None = None
    """λ, in the kernel's units; that of the task for trained models."""


@dataclass(frozen=True)
class Answer:
    known: Known
    verdict: Verdict
    ridge: BestRidge
    """λ̂ in the kernel's units, from influence."""
    ridge_of_copies: BestRidge
    """λ̂ in the kernel's units, from copies."""

    @property
    def right(self) -> bool:
        return self.known.kind in (None, self.verdict.kind)

    @property
    def copies_say(self) -> Kind:
        """What copies alone tell of ridge regression and similarity: which of both they reject, in favour of the other.

        Ridge regression must be nearer than each member of similarity; for similarity, one member that is nearer will do.
        """
        discount = self.verdict.discount
        assert discount is not None
        if all(discount.rejects(one, [RIDGE]) for one in SIMILARITIES):
            return "kernel ridge regression"
        if discount.rejects(SMALL_RIDGE, SIMILARITIES):
            return "similarity"
        return "cannot be told"


def ask(known: Known, *, prompts: int = PROMPTS, seed: int = 0) -> Answer:
    """Chooses on prompts of the seed, and judges on those of the next one, with a support of each repeated."""
    model = known.make()
    first, second = (known.task.draw(prompts, s) for s in (seed, seed + 1))
    choice = choose(observe(model, first, seed=seed), [View(known.kernel)])
    observed = observe(model, second, seed=seed + 1)
    order = uniform(generator_of(seed, 0xC0), prompts, second.supports).argsort(-1)
    copies = repeat_supports(model, second, order[:, :COPIES])
    verdict = judge(choice, observed, copies, seed=seed)
    assert verdict.discount is not None
    found, of_copies = verdict.profile.best, verdict.discount.ridge
    return Answer(known, verdict, found.times(choice.unit), of_copies.times(choice.unit))


def linear(features: int, supports: int, noise: float, condition: float = 10.0) -> LinearRegression:
    return LinearRegression(
        features=features, supports=supports, queries=6, condition=condition, noise=noise
    )


def process(supports: int, width: float, noise_variance: float) -> GaussianProcess:
    return GaussianProcess(
        supports=supports, queries=6, lengthscales=(width,), noise_variance=noise_variance
    )


def solved(name: str, task: LearnableTask, steps: int, bound: float | None = None) -> Known:
    """A compiled solver of its task's own system; with linear attention, for eigenvalues of K up to `bound`."""
    law = task.law()
    solver, _, precondition = name.partition(", ")

    def make() -> Subject:
        to: LinearAttention | SoftmaxAttention = SoftmaxAttention(1.5, task.supports)
        if bound is not None:
            to = LinearAttention(bound)
        model = compile(
            make_solver(solver, precondition or None),
            features=task.features,
            steps=steps,
            ridge=law.ridge,
            kernel=law.kernel,
            to=to,
        )
        assert isinstance(model, CompiledModel)
        return subject(model)

    label = f"compiled {name}, {steps} steps, k = {task.supports}, p = {task.features}"
    return Known(label, make, task, law.kernel, "kernel ridge regression", law.ridge)


def smoothed(task: GaussianProcess, kernel: Kernel) -> Known:
    """A compiled smoother."""

    def make() -> Subject:
        model = compile(
            make_solver("nadaraya-watson"),
            features=task.features,
            kernel=kernel,
            to=SoftmaxAttention(),
        )
        assert isinstance(model, CompiledModel)
        return subject(model)

    label = f"compiled Nadaraya–Watson, {kernel.label}, k = {task.supports}"
    return Known(label, make, task, kernel, "similarity")


def nearest(task: LearnableTask, layers: int) -> Known:
    label = f"mean of {2 ** (layers - 1)} nearest, k = {task.supports}, p = {task.features}"
    return Known(label, lambda: Neighbours(layers), task, task.law().kernel, "neighbours")


@dataclass(frozen=True)
class Latest(Subject):
    """Answers with a mean of the targets in which later ones weigh more, whatever the query."""

    name = "recency"

    def read(self, prompt: Prompt) -> Reading:
        weights = torch.arange(1, prompt.supports + 1, dtype=prompt.y.dtype).square()
        mean = (weights / weights.sum()) @ prompt.y[..., 0].mT
        said = mean[:, None, None].expand(-1, prompt.phi_query.shape[1], 1)
        stream = torch.cat([prompt.phi_query, said], -1)
        return Reading(said, stream[None], torch.cat([prompt.phi, prompt.y], -1)[None])


def trained(name: str, task: LearnableTask) -> Known:
    law = task.law()
    return Known(
        f"trained {name}", lambda: subject(zoo.load(name)), task, law.kernel, None, law.ridge
    )


COMPILED = (
    solved("cg", linear(6, 16, 0.3), steps=7, bound=200.0),
    solved("cg", linear(6, 16, 1.0), steps=7, bound=200.0),
    solved("cg", linear(3, 12, 0.5), steps=4, bound=150.0),
    solved("cg", linear(10, 24, 0.2, 30.0), steps=14, bound=400.0),
    solved("chebyshev", linear(6, 16, 0.5), steps=60, bound=200.0),
    solved("chebyshev", linear(8, 20, 1.0), steps=40, bound=250.0),
    solved("gd", linear(6, 16, 1.0), steps=120, bound=200.0),
    solved("richardson, row-sum", process(12, 0.7, 0.3), steps=80),
    solved("richardson, row-sum", process(16, 0.5, 1.0), steps=40),
    solved("richardson, row-sum", process(16, 0.5, 0.1), steps=160),
)
SMOOTHERS = (
    smoothed(process(12, 0.7, 0.3), Gaussian(0.7)),
    smoothed(process(16, 0.5, 0.1), Gaussian(0.4)),
    smoothed(process(24, 0.5, 0.1), Exponential(0.3)),
)
OTHERS = (
    nearest(linear(6, 16, 0.3), 1),
    nearest(linear(6, 16, 0.3), 3),
    nearest(process(16, 0.5, 0.1), 2),
    Known("recency", Latest, linear(6, 16, 0.3), Linear(), "recency"),
)
TRAINED = (
    trained("linear", LinearRegression(queries=6)),
    trained("linear-1", LinearRegression(queries=6)),
    trained("gp", GaussianProcess(queries=6)),
    trained("gp-1", GaussianProcess(queries=6)),
    trained("linear-attention", LinearRegression(queries=6)),
)
KNOWN = (*COMPILED, *SMOOTHERS, *OTHERS, *TRAINED)
