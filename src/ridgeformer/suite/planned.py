"""What a suite is made of: compiled solvers at small sizes, and how prompts are drawn for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    GradientDescent,
    GradientDescentPlus,
    HeavyBall,
    IterativeNewton,
    NadarayaWatson,
    Richardson,
    Solver,
)
from ridgeformer.tasks import GaussianLaw, PrescribedSpectrum, Prompt

SUPPORTS, QUERIES = 12, 4

NOISE = 0.1
"""The λ of the targets that a smoother is given, which has none itself."""

Draw = Callable[[int, int], Prompt]
"""Prompts, from their number and a seed."""


@dataclass(frozen=True)
class Planned:
    """A compiled model that becomes two cases, one of them in a rotated basis."""

    kind: str
    model: CompiledModel
    law: GaussianLaw
    """How targets are drawn anew for the same features."""
    draw: Draw

    @property
    def other_features(self) -> bool:
        """Whether the states that are exchanged are those of prompts with other features.

        What a solver in operator space keeps is a function of the features alone.
        """
        return self.model.certificate.space == "operator"

    def source(self, base: Prompt, seed: int) -> Prompt:
        """The prompts whose states are put into runs on `base`."""
        if self.other_features:
            return self.draw(len(base), seed)
        return self.law.relabel(base, torch.Generator().manual_seed(seed))


def draw_points(features: int, law: GaussianLaw) -> Draw:
    """Points of the cube [−1, 1]ᵖ with targets of a Gaussian law."""

    def draw(batch: int, seed: int) -> Prompt:
        generator = torch.Generator().manual_seed(seed)
        shape = (batch, SUPPORTS + QUERIES, features)
        points = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
        phi, queries = points[:, :SUPPORTS], points[:, SUPPORTS:]
        return law.relabel(Prompt(phi, phi[..., :1], queries), generator)

    return draw


class Drawer:
    """Draws the parameters of a suite: each suite has its own ridges, conditions and widths."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def between(self, lo: float, hi: float) -> float:
        """A number, uniform on the logarithmic scale and rounded to two digits."""
        share = float(torch.rand((), generator=self.generator, dtype=torch.float64))
        return float(f"{lo * (hi / lo) ** share:.2g}")

    def seed(self) -> int:
        return int(torch.randint(2**31, (), generator=self.generator))

    def shuffled(self, count: int) -> list[int]:
        order: list[int] = torch.randperm(count, generator=self.generator).tolist()
        return order

    def linear(
        self, kind: str, solver: Solver, steps: int, *, looped: bool = False, **target: bool
    ) -> Planned:
        """A solver on the linear kernel, by linear attention."""
        ridge, condition = self.between(0.5, 2.0), self.between(15.0, 40.0)
        task = PrescribedSpectrum(4, SUPPORTS, QUERIES, condition=condition, ridge=ridge)
        products = Exact() if target else None
        to = LinearAttention(task.max_eigenvalue, products, **target)
        taken = None if looped else steps
        model = compile(solver, features=4, steps=taken, ridge=ridge, to=to, looped=looped)
        if looped:
            model = model.unrolled(steps)
        return Planned(kind, model, GaussianLaw(Linear(), ridge), task.draw)

    def softmax(
        self, kind: str, solver: Solver, steps: int, kernel: Kernel, features: int
    ) -> Planned:
        """A solver on a kernel that softmax attention makes, with exact products."""
        smooths = solver.smooths
        to = SoftmaxAttention(features**0.5, SUPPORTS, None if smooths else Exact())
        ridge = None if smooths else self.between(0.3, 0.8)
        model = compile(solver, features=features, steps=steps, ridge=ridge, kernel=kernel, to=to)
        law = GaussianLaw(kernel, ridge or NOISE)
        return Planned(kind, model, law, draw_points(features, law))


def planned(drawer: Drawer) -> list[Planned]:
    """The compiled models of a suite."""
    gaussian, row_sum = Gaussian(drawer.between(0.4, 0.7)), "row-sum"
    warm, cool = Exponential(drawer.between(1.5, 2.5)), Exponential(drawer.between(0.5, 1.0))
    decoder = {"causal": True, "every_prefix": True}
    linear, softmax = drawer.linear, drawer.softmax
    return [
        linear("cg-linear", ConjugateGradient(), 3),
        linear("chebyshev-linear", Chebyshev(), 4),
        linear("gd-linear", GradientDescent(), 4),
        linear("heavy-ball-linear", HeavyBall(), 4),
        linear("heavy-ball-unrolled-loop", HeavyBall(), 4, looped=True),
        linear("newton-linear", IterativeNewton(), 3),
        linear("gd++-linear", GradientDescentPlus(), 3),
        linear("chebyshev-decoder", Chebyshev(), 4, **decoder),
        softmax("cg-exponential", ConjugateGradient(), 3, warm, 2),
        softmax("richardson-gaussian", Richardson(precondition=row_sum), 4, gaussian, 2),  # type: ignore[arg-type]
        softmax("chebyshev-gaussian", Chebyshev(precondition=row_sum), 4, gaussian, 2),  # type: ignore[arg-type]
        softmax("nadaraya-watson", NadarayaWatson(), 1, cool, 3),
    ]
