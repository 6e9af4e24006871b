"""The cases of a calibration: models that are drawn at random, each with the answer that is right for it.

A case is a few numbers, from which everything in it is drawn: the same case is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import exp, sqrt
from typing import Any, Literal

import numpy as np

from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.identification.planted import (
    Ensemble,
    Neighbours,
    Noisy,
    Relayered,
    Rotated,
    shuffled,
)
from ridgeformer.kernels import Gaussian, Kernel, Linear
from ridgeformer.models import Subject, TransformerSubject, subject
from ridgeformer.models.untrained import untrained
from ridgeformer.solvers import kernel_eigenvalues, make_solver
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.gaussian_process import GaussianProcess
from ridgeformer.tasks.linear_regression import LinearRegression

Treatment = Literal["clean", "noise", "merged", "idle"]

PROMPTS = 128
NOISE = 0.01

LINEAR = ("gd", "heavy-ball", "chebyshev", "cg", "cg, jacobi", "newton")
GAUSSIAN = ("richardson, row-sum", "nadaraya-watson")
PLANTED = LINEAR + GAUSSIAN
CONTROLS = ("untrained", "shuffled", "neighbours", "two solvers")


@dataclass(frozen=True)
class Case:
    answer: str
    """The name of the candidate that is right, or of the control."""
    seed: int
    treatment: Treatment = "clean"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def drawn(self) -> Drawn:
        rng = np.random.default_rng([self.seed, *self.answer.encode()])
        base = self.control(rng) if self.answer in CONTROLS else planted(self.answer, rng)
        return Drawn(
            TREATMENTS[self.treatment](Rotated(base.subject, self.seed), self.seed),
            base.prompt,
            base.kernel,
            base.ridge,
        )

    def control(self, rng: np.random.Generator) -> Drawn:
        if self.answer == "two solvers":
            first, second = rng.choice(LINEAR[:5], 2, replace=False)
            a = planted(str(first), rng)
            b = planted(str(second), rng, a)
            return Drawn(Ensemble(a.subject, b.subject), a.prompt, a.kernel, a.ridge)
        base = planted(str(rng.choice(LINEAR)), rng)
        if self.answer == "neighbours":
            return Drawn(Neighbours(), base.prompt, base.kernel, base.ridge)
        inner = base.subject
        assert isinstance(inner, TransformerSubject)
        change = untrained if self.answer == "untrained" else shuffled
        spoilt = TransformerSubject(
            self.answer, change(inner.transformer, self.seed), inner.places, inner.loops
        )
        return Drawn(spoilt, base.prompt, base.kernel, base.ridge)


@dataclass(frozen=True)
class Drawn:
    """A subject with prompts, and the kernel and λ that are thought to be near."""

    subject: Subject
    prompt: Prompt
    kernel: Kernel
    ridge: float


TREATMENTS: dict[Treatment, Callable[[Subject, int], Subject]] = {
    "clean": lambda inner, seed: inner,
    "noise": lambda inner, seed: Noisy(inner, NOISE, seed),
    "merged": lambda inner, seed: Relayered(inner, every=2),
    "idle": lambda inner, seed: Relayered(inner, copies=2),
}


def planted(answer: str, rng: np.random.Generator, beside: Drawn | None = None) -> Drawn:
    """A compiled model of that solver; `beside` gives the prompts of another, which it shares."""
    name, _, precondition = answer.partition(", ")
    solver = make_solver(name, precondition or None)
    steps = int(rng.integers(3, 6) if name == "newton" else rng.integers(5, 9))
    draw = gaussian_prompts if answer in GAUSSIAN else linear_prompts
    prompt, kernel, ridge = (
        draw(rng) if beside is None else (beside.prompt, beside.kernel, beside.ridge)
    )
    near = ridge * exp(rng.uniform(-0.4, 0.4))
    if isinstance(kernel, Gaussian):
        wide = Gaussian(kernel.lengthscale * exp(rng.uniform(-0.2, 0.2)))
        smoother = solver.smooths
        to = SoftmaxAttention(sqrt(2.0), prompt.supports, Exact())
        model = compile(
            solver,
            features=prompt.features,
            steps=None if smoother else steps,
            ridge=None if smoother else near,
            kernel=wide,
            to=SoftmaxAttention() if smoother else to,
        )
    else:
        top = float(kernel_eigenvalues(prompt, kernel).max()) * rng.uniform(1.05, 2.0)
        model = compile(
            solver,
            features=prompt.features,
            steps=steps,
            ridge=near,
            to=LinearAttention(top, Exact() if precondition else None),
        )
    assert isinstance(model, CompiledModel)
    return Drawn(subject(model), prompt, kernel, ridge)


def linear_prompts(rng: np.random.Generator) -> tuple[Prompt, Kernel, float]:
    features = int(rng.integers(4, 13))
    task = LinearRegression(
        features=features,
        supports=int(rng.integers(features + 6, 41)),
        queries=8,
        condition=10 ** rng.uniform(0.7, 2.0),
        noise=rng.uniform(0.2, 0.5),
    )
    return task.draw(PROMPTS, int(rng.integers(2**31))), Linear(), task.law().ridge


def gaussian_prompts(rng: np.random.Generator) -> tuple[Prompt, Kernel, float]:
    task = GaussianProcess(
        supports=int(rng.integers(8, 25)),
        queries=8,
        lengthscales=(rng.uniform(0.4, 0.9),),
        noise_variance=rng.uniform(0.05, 0.3),
    )
    kernel = Gaussian(task.lengthscales[0])
    return task.draw(PROMPTS, int(rng.integers(2**31))), kernel, task.noise_variance
