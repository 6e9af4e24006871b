"""The cases of a calibration: models that are drawn at random, each with the answer that is right for it.

A case is a few numbers, from which everything in it is drawn: the same case is the same on every machine. Cases
that limits are chosen on come from one world. Those that test them come from another, with other shapes,
spectra, λ, kernels and numbers of steps, so that what holds there was not fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import exp
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.identification.planted import (
    Ensemble,
    Neighbours,
    Noisy,
    Relayered,
    Rotated,
    perturbed,
    shuffled,
)
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.models import Subject, TransformerSubject, subject
from ridgeformer.models.untrained import untrained
from ridgeformer.solvers import kernel_eigenvalues, make_solver
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.gaussian_process import GaussianProcess
from ridgeformer.tasks.linear_regression import LinearRegression
from ridgeformer.tasks.spectrum import PrescribedSpectrum
from ridgeformer.training import Architecture
from ridgeformer.training.layouts import LAYOUTS
from ridgeformer.transformer import Transformer

Treatment = Literal["clean", "noise", "weights", "merged", "idle"]
World = Literal["known", "held out"]

PROMPTS = 128
NOISE = 0.01
"""The variance of noise on predictions, as a part of theirs."""

STEPS: dict[World, tuple[int, int]] = {"known": (5, 9), "held out": (4, 10)}
"""How many steps a compiled model takes: at least the first number, fewer than the second."""

WEIGHT_NOISE = (1e-6, 1e-2)
"""The spread of the factors by which weights are moved is drawn between these, evenly in its logarithm."""

LINEAR = ("gd", "heavy-ball", "chebyshev", "cg", "cg, jacobi", "newton")
GAUSSIAN = ("richardson, row-sum", "nadaraya-watson")
PLANTED = LINEAR + GAUSSIAN
ORDERED = ("chebyshev", "cg", "cg, jacobi", "newton")
"""Their steps differ from each other, so that another order computes something else."""
CONTROLS = ("untrained", "shuffled", "neighbours", "two solvers")


@dataclass(frozen=True)
class Case:
    answer: str
    """The name of the candidate that is right, or of the control."""
    seed: int
    treatment: Treatment = "clean"
    world: World = "known"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_control(self) -> bool:
        return self.answer in CONTROLS

    def drawn(self) -> Drawn:
        rng = np.random.default_rng([self.seed, *self.world.encode(), 0, *self.answer.encode()])
        base = self.control(rng) if self.is_control else planted(self.answer, rng, self.world)
        treated = TREATMENTS[self.treatment](base.subject, self.seed)
        return replace(base, subject=Rotated(treated, self.seed))

    def control(self, rng: np.random.Generator) -> Drawn:
        if self.answer == "two solvers":
            first, second = rng.choice(LINEAR[:5], 2, replace=False)
            a = planted(str(first), rng, self.world)
            b = planted(str(second), rng, self.world, a)
            return replace(a, subject=Ensemble(a.subject, b.subject))
        solvers = ORDERED if self.answer == "shuffled" else LINEAR
        base = planted(str(rng.choice(solvers)), rng, self.world)
        if self.answer == "neighbours":
            return replace(base, subject=Neighbours())
        inner = base.subject
        assert isinstance(inner, TransformerSubject)
        if self.answer == "untrained":
            return replace(base, subject=learner(base.prompt, rng, self.seed))
        other = shuffled(inner.transformer, self.seed)
        return replace(base, subject=replace(inner, name=self.answer, transformer=other))


def learner(prompt: Prompt, rng: np.random.Generator, seed: int) -> Subject:
    """A transformer as it is before training: softmax attention, layer norms, random weights."""
    task = LinearRegression(features=prompt.features, supports=prompt.supports)
    width = 16 * int(rng.integers(2, 5))
    shape = Architecture(n_layers=int(rng.integers(3, 9)), d_model=width, d_mlp=4 * width)
    layout = LAYOUTS[shape.layout]
    transformer = untrained(Transformer(layout.config(task, asdict(shape)), init="zero"), seed)

    def tokens(other: Prompt) -> tuple[Tensor, int, Tensor]:
        return *layout.sequences(other.to(torch.float32)), torch.arange(other.supports)

    return TransformerSubject("untrained", transformer, tokens)


@dataclass(frozen=True)
class Drawn:
    """A subject with prompts, and the kernel and λ that are thought to be near."""

    subject: Subject
    prompt: Prompt
    kernel: Kernel
    ridge: float


def with_moved_weights(inner: Subject, seed: int) -> Subject:
    """Every weight is multiplied by a number near 1."""
    assert isinstance(inner, TransformerSubject)
    other = perturbed(inner.transformer, spread_of_weights(seed), seed)
    return replace(inner, transformer=other)


def spread_of_weights(seed: int) -> float:
    """The spread of the factors by which the weights of a case with that seed are moved."""
    low, high = np.log(WEIGHT_NOISE)
    return exp(np.random.default_rng([seed, 1]).uniform(low, high))


TREATMENTS: dict[Treatment, Callable[[Subject, int], Subject]] = {
    "clean": lambda inner, seed: inner,
    "noise": lambda inner, seed: Noisy(inner, NOISE, seed),
    "weights": with_moved_weights,
    "merged": lambda inner, seed: Relayered(inner, every=2),
    "idle": lambda inner, seed: Relayered(inner, copies=2),
}


def planted(
    answer: str, rng: np.random.Generator, world: World, beside: Drawn | None = None
) -> Drawn:
    """A compiled model of that solver; `beside` gives the prompts of another, which it shares."""
    name, _, precondition = answer.partition(", ")
    solver = make_solver(name, precondition or None)
    few, many = (3, 6) if name == "newton" else STEPS[world]
    steps = int(rng.integers(few, many))
    if beside is None:
        prompt, kernel, ridge = PROMPTS_OF[answer in GAUSSIAN, world](rng)
    else:
        prompt, kernel, ridge = beside.prompt, beside.kernel, beside.ridge
    own, to = kernel, target(prompt, kernel, bool(precondition), rng)
    if isinstance(kernel, Gaussian):
        own = Gaussian(kernel.lengthscale * exp(rng.uniform(-0.2, 0.2)))
    elif isinstance(kernel, Exponential):
        own = Exponential(kernel.temperature * exp(rng.uniform(-0.2, 0.2)))
    model = compile(
        solver,
        features=prompt.features,
        steps=None if solver.smooths else steps,
        ridge=None if solver.smooths else ridge * exp(rng.uniform(-0.4, 0.4)),
        kernel=own,
        to=SoftmaxAttention() if solver.smooths else to,
    )
    assert isinstance(model, CompiledModel)
    return Drawn(subject(model), prompt, kernel, ridge)


def target(
    prompt: Prompt, kernel: Kernel, preconditioned: bool, rng: np.random.Generator
) -> LinearAttention | SoftmaxAttention:
    """Attention that serves these prompts, with some room."""
    if kernel.logits() is not None:
        longest = float(torch.cat([prompt.phi, prompt.phi_query], dim=1).norm(dim=-1).max())
        return SoftmaxAttention(1.01 * longest, prompt.supports, Exact())
    top = float(kernel_eigenvalues(prompt, kernel).max()) * rng.uniform(1.05, 2.0)
    multiplies = preconditioned or not isinstance(kernel, Linear)
    return LinearAttention(top, Exact() if multiplies else None)


Prompts = tuple[Prompt, Kernel, float]
"""Prompts, with a kernel and a λ that suit them."""


def linear_prompts(rng: np.random.Generator) -> Prompts:
    features = int(rng.integers(4, 13))
    task = LinearRegression(
        features=features,
        supports=int(rng.integers(features + 6, 41)),
        queries=8,
        condition=10 ** rng.uniform(0.7, 2.0),
        noise=rng.uniform(0.2, 0.5),
    )
    return task.draw(PROMPTS, seed_from(rng)), Linear(), task.law().ridge


def other_linear_prompts(rng: np.random.Generator) -> Prompts:
    """More features, spectra that are given, or the quadratic kernel."""
    if rng.random() < 0.3:
        task = LinearRegression(
            features=3, supports=int(rng.integers(14, 25)), queries=8, condition=3.0, noise=0.3
        )
        return task.draw(PROMPTS, seed_from(rng)), Polynomial(2), 10 ** rng.uniform(0.3, 1.0)
    features = int(rng.integers(13, 17))
    given = PrescribedSpectrum(
        features=features,
        supports=int(rng.integers(features + 4, 49)),
        queries=8,
        condition=10 ** rng.uniform(1.3, 2.5),
        ridge=10 ** rng.uniform(-0.7, 0.7),
        shape="geometric" if rng.random() < 0.5 else "uniform",
    )
    return given.draw(PROMPTS, seed_from(rng)), Linear(), given.ridge


def gaussian_prompts(rng: np.random.Generator) -> Prompts:
    task = GaussianProcess(
        supports=int(rng.integers(8, 25)),
        queries=8,
        lengthscales=(rng.uniform(0.4, 0.9),),
        noise_variance=rng.uniform(0.05, 0.3),
    )
    return task.draw(PROMPTS, seed_from(rng)), Gaussian(task.lengthscales[0]), task.noise_variance


def other_gaussian_prompts(rng: np.random.Generator) -> Prompts:
    """More supports, other widths, or the exponential kernel."""
    width = rng.uniform(0.9, 1.3)
    task = GaussianProcess(
        supports=int(rng.integers(25, 33)),
        queries=8,
        lengthscales=(width,),
        noise_variance=rng.uniform(0.3, 0.6),
    )
    kernel = Gaussian(width) if rng.random() < 0.5 else Exponential(width**2)
    return task.draw(PROMPTS, seed_from(rng)), kernel, task.noise_variance


def seed_from(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


PROMPTS_OF: dict[tuple[bool, World], Callable[[np.random.Generator], Prompts]] = {
    (False, "known"): linear_prompts,
    (False, "held out"): other_linear_prompts,
    (True, "known"): gaussian_prompts,
    (True, "held out"): other_gaussian_prompts,
}
