"""The settings of the `gaussian` study: its prompts, its solvers and what is swept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import CompiledModel, Exact, Interpolated, SoftmaxAttention, compile
from ridgeformer.kernels import Gaussian
from ridgeformer.models import trajectory
from ridgeformer.solvers import Chebyshev, Richardson, certified_interval, solve
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import normal as standard_normal
from ridgeformer.tasks.learnable import uniform

RIDGE, TARGET, QUERIES, RADIUS = 0.1, 4.0, 8, 1.5


@dataclass(frozen=True)
class Method:
    """A solver of the study, and what is known of it beforehand."""

    solver: Richardson | Chebyshev
    steps: Callable[[Interval, Interval], int]
    """Enough steps for the least level, from the interval tuned to and that of the spectrum."""
    tunings: tuple[str, ...] = ("prompts", "certain")
    """The intervals that it is tuned to: that of the prompts, one that is certain, and for "unit step"
    the one with η = 1, the step that takes row averages as they are."""


METHODS = {
    method.solver.name: method
    for method in (
        Method(
            Richardson(precondition="row-sum"),
            lambda tuned, spectrum: ceil(23 * sum(tuned) / 2 / spectrum[0]),
            ("prompts", "certain", "unit step"),
        ),
        Method(
            Chebyshev(precondition="row-sum"),
            lambda tuned, spectrum: ceil(11.5 * sqrt(tuned[1] / tuned[0])) + 10,
        ),
    )
}


@dataclass(frozen=True)
class Scale:
    """The values that the study sweeps over."""

    supports: tuple[int, ...] = (16, 32, 64, 128)
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    floor_steps: int = 48
    blocks_supports: tuple[int, ...] = (32, 64)
    blocks_widths: tuple[int, ...] = (64, 256, 1024)
    blocks_steps: tuple[tuple[str, int], ...] = (("chebyshev", 160), ("richardson", 160))
    constants: tuple[tuple[int, int, float], ...] = (
        (32, 2, 0.5), (64, 2, 0.5), (128, 2, 0.5), (64, 5, 1.0),
    )  # fmt: skip
    """Supports, features and lengthscale."""
    gated_steps: int = 120


QUICK = Scale(
    supports=(16, 32),
    widths=(64, 128, 256, 512),
    floor_steps=24,
    blocks_supports=(32,),
    blocks_widths=(64, 256),
    blocks_steps=(("chebyshev", 60), ("richardson", 60)),
    constants=((32, 2, 0.5), (32, 5, 1.0)),
    gated_steps=90,
)
"""A smaller plan for fewer than 8 prompts, whose intervals would not justify more."""


@dataclass(frozen=True)
class Setting:
    """Prompts of one kind: features uniform in a ball, targets from the kernel with noise² = λ."""

    supports: int
    features: int = 2
    lengthscale: float = 0.5

    @property
    def kernel(self) -> Gaussian:
        return Gaussian(self.lengthscale)

    @property
    def radius(self) -> float:
        """So that each feature has the same variance, whatever their number."""
        return float(RADIUS * ((self.features + 2) / 4) ** 0.5)

    @property
    def certain(self) -> Interval:
        """Where the eigenvalues of D⁻¹A lie for every prompt of the domain."""
        return certified_interval("row-sum", RIDGE, self.supports, (2.0, self.supports + 1.0))

    def draw(self, prompts: int, seed: int) -> Prompt:
        generator = torch.Generator().manual_seed(seed)
        normal, k = partial(standard_normal, generator), self.supports

        def ball(points: int) -> Tensor:
            direction = normal(prompts, points, self.features)
            radius = uniform(generator, prompts, points, 1)
            length = self.radius * radius ** (1 / self.features)
            unit: Tensor = direction / direction.norm(dim=-1, keepdim=True)
            return length * unit

        phi, query = ball(k), ball(QUERIES)
        values, vectors = torch.linalg.eigh(self.kernel(phi, phi))
        root = vectors * values.clamp(min=0).sqrt()[:, None, :]
        y = root @ normal(prompts, k, 1) + RIDGE**0.5 * normal(prompts, k, 1)
        return Prompt(phi, y.clamp(-TARGET, TARGET), query)

    def compiled(self, name: str, steps: int, products: Exact | Interpolated) -> CompiledModel:
        """The solver of that name, tuned to the certain interval."""
        return compile(
            replace(METHODS[name].solver, interval=self.certain), features=self.features, steps=steps,
            ridge=RIDGE, kernel=self.kernel,
            to=SoftmaxAttention(self.radius, self.supports, products),
        )  # fmt: skip

    def solved(
        self, name: str, prompt: Prompt, steps: int, interval: Interval | None = None
    ) -> Float[Tensor, "steps batch q r"]:
        """The predictions of the solver, tuned to the certain interval or to another."""
        solver, tuned = METHODS[name].solver, interval or self.certain
        run = solve(solver, prompt, steps=steps, ridge=RIDGE, kernel=self.kernel, interval=tuned)
        return run.predictions

    def spectrum(self, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """The eigenvalues of D⁻¹A in rising order, and D."""
        gram = self.kernel(prompt.phi, prompt.phi)
        sums = 1 + gram.sum(-1)
        system = gram + RIDGE * torch.eye(self.supports, dtype=gram.dtype)
        similar = system / (sums[:, :, None] * sums[:, None, :]).sqrt()  # symmetric
        return torch.linalg.eigvalsh(similar), sums


def predictions(model: CompiledModel, prompt: Prompt) -> Float[Tensor, "steps batch q r"]:
    """A few prompts at a time: hidden layers of all prompts at once would leave the cache."""
    tokens = (prompt.supports + 1 + QUERIES) * model.transformer.config.d_mlp
    few = max(1, 2**16 // tokens)
    parts = [prompt[i : i + few] for i in range(0, len(prompt), few)]
    return torch.cat([trajectory(model, part).predictions for part in parts], dim=1)
