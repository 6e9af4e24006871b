"""Cases: a solver with a kernel and a target, on which the general theorems are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import torch

from ridgeformer.compiler import (
    CompiledModel,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
    compile,
)
from ridgeformer.compiler.catalogue import MAX_NORM, MAX_TARGET, attempts, without_promise
from ridgeformer.compiler.certificate import largest_eigenvalue
from ridgeformer.compiler.job import Dtype
from ridgeformer.compiler.targets import Target
from ridgeformer.kernels import KERNELS, Kernel, Linear
from ridgeformer.models import trajectory
from ridgeformer.models.reference import interval_of
from ridgeformer.solvers import SOLVERS, Solver, krr, make_solver, solve
from ridgeformer.solvers.machine import Interval
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

MAX_SUPPORTS = 12
"""How many supports a prompt has, unless its target serves fewer."""


def ball(generator: torch.Generator, radius: float, *shape: int) -> torch.Tensor:
    """Points in a ball, half of them on its surface."""
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    length = (
        torch.rand(*shape[:-1], 1, generator=generator, dtype=torch.float64).mul(2).clamp(max=1)
    )
    unit: torch.Tensor = x / x.norm(dim=-1, keepdim=True)
    return radius * length * unit


def two_ends(prompts: int, supports: int, features: int, radius: float, seed: int) -> Prompt:
    """Random points in a ball; in a quarter of the prompts, all at two ends of it, targets to match.

    With the aggregator's 0 between them, those come near the worst case: g is then close to tanh.
    """
    generator = torch.Generator().manual_seed(seed)
    phi = ball(generator, radius, prompts, supports, features)
    query = ball(generator, radius, prompts, 8, features)
    y = torch.randn(prompts, supports, 1, generator=generator, dtype=torch.float64)
    pole = torch.zeros(features, dtype=torch.float64)
    pole[0] = radius
    side = torch.ones(supports, 1, dtype=torch.float64)
    side[supports // 2 :] = -1
    few = prompts // 4
    phi[:few], query[:few, 0], y[:few] = side * pole, pole, side
    return Prompt(phi, y, query)


def compiled(
    solver: Solver,
    prompt: Prompt,
    to: Target,
    *,
    steps: int = 1,
    ridge: float | None = 1.0,
    kernel: Kernel | None = None,
    dtype: Dtype = "float64",
    looped: bool = False,
) -> CompiledModel:
    """The solver compiled for as many features and outputs as the prompt has."""
    return compile(
        solver,
        features=prompt.features,
        outputs=prompt.outputs,
        to=to,
        steps=steps,
        ridge=ridge,
        kernel=kernel,
        dtype=dtype,
        looped=looped,
    )


def prediction_errors(
    model: CompiledModel, prompt: Prompt, kernel: Kernel | None = None
) -> torch.Tensor:
    """|f_t(x) − f*(x)| of the predictions that the model holds after every step."""
    ridge = model.certificate.ridge
    assert ridge is not None, "a smoother approaches no ridge regression"
    return (trajectory(model, prompt).predictions - krr(prompt, ridge=ridge, kernel=kernel)).abs()


@dataclass
class Case:
    """One solver with its kernel, and the target that it is compiled to, if any."""

    solver: Solver
    kernel: Kernel = field(default_factory=Linear)
    to: Target | None = None
    features: int = 4
    ridge: float = 1.0
    steps: int = 4
    outputs: int = 1
    dtype: Dtype = "float64"
    looped: bool = False
    called: str = ""
    """What it is called, if not by its parts."""
    models: dict[tuple[int, int, int, bool], CompiledModel] = field(
        default_factory=dict, repr=False
    )

    @property
    def label(self) -> str:
        if self.called:
            return self.called
        parts = [self.solver.name]
        if self.solver.precondition != "none":
            parts.append(self.solver.precondition)
        parts.append(self.kernel.label)
        match self.to:
            case LinearAttention(every_prefix=True):
                parts.append("linear attention at every prefix")
            case LinearAttention(causal=causal):
                parts.append("causal linear attention" if causal else "linear attention")
            case SoftmaxAttention(products=Interpolated(digits=True)):
                parts.append("softmax attention and digits")
            case SoftmaxAttention():
                parts.append("softmax attention")
        return ", ".join(parts)

    @property
    def taken(self) -> int | None:
        """How many steps a looped model is asked for; None leaves nothing to ask."""
        return self.steps if self.looped else None

    def model(
        self,
        *,
        features: int | None = None,
        outputs: int | None = None,
        steps: int | None = None,
        promised: bool = True,
    ) -> CompiledModel:
        """The compiled model, which is kept for the next theorem; if not `promised`, its error may be
        one that cannot be bounded."""
        if self.to is None:
            raise Refusal("Nothing is compiled without a target: give `to`.")
        key = features or self.features, outputs or self.outputs, steps or self.steps, promised
        if key not in self.models:
            smooths = self.solver.smooths  # which takes one step, and no ridge
            self.models[key] = compile(
                self.solver,
                features=key[0],
                outputs=key[1],
                steps=1 if smooths else key[2],
                ridge=None if smooths else self.ridge,
                kernel=self.kernel,
                to=self.to if promised else without_promise(self.to, self.kernel),
                dtype=self.dtype,
                looped=self.looped,
            )
        return self.models[key]

    @property
    def system(self) -> dict[str, Any]:
        """What K + λI follows from, as keywords."""
        return {"ridge": self.ridge, "kernel": self.kernel}

    def interval(self) -> Interval | None:
        """What the solver is tuned to: as the compiled model is, or, without a target, by the prompts."""
        if self.to is None or self.solver.smooths:
            return self.solver.interval
        return self.solver.interval or interval_of(self.model())

    def prompts(self, count: int, seed: int, supports: int = MAX_SUPPORTS) -> Prompt:
        """Prompts inside the target's domain; each support is a query too, beside two new points."""
        radius, most, target, top = MAX_NORM, supports, MAX_TARGET, inf
        match self.to:
            case LinearAttention(max_eigenvalue=limit):
                top = limit
            case SoftmaxAttention(max_norm=norm, max_supports=fewer, products=products):
                radius, most = norm or radius, min(supports, fewer or supports)
                if isinstance(products, Interpolated):
                    target = products.max_target
        generator = torch.Generator().manual_seed(seed)
        points = ball(generator, radius, count, most + 2, self.features)
        y = torch.randn(count, most, self.outputs, generator=generator, dtype=torch.float64)
        y = y.clamp(-target, target)
        for _ in range(60):
            prompt = Prompt(points[:, :most], y, points)
            if float(largest_eigenvalue(prompt, self.kernel).max()) <= top:
                return prompt.to(getattr(torch, self.dtype))
            points = 0.8 * points
        raise Refusal(
            f"{most} supports of the {self.kernel.name} kernel have eigenvalues above `max_eigenvalue` = "
            f"{top:g} however short their features are: raise it."
        )


def registered_solvers() -> Iterator[Solver]:
    """Each registered solver with each of its preconditioners."""
    for name, kind in SOLVERS.items():
        for precondition in kind.preconditioners:
            yield make_solver(name, precondition)


def numeric_cases(steps: int) -> list[Case]:
    """Each registered solver with each kernel that it takes, without a target."""
    cases = []
    for solver in registered_solvers():
        for kernel in (example for kind in KERNELS.values() for example in kind.examples()):
            case = Case(solver, kernel, steps=steps)
            try:
                prompt = case.prompts(4, seed=0)
                solve(solver, prompt, steps=1, ridge=case.ridge, kernel=kernel)
            except Refusal:
                continue
            cases.append(case)
    return cases


def compiled_cases(fast: bool) -> list[Case]:
    """Everything in the catalogue that compiles; if fast, one in three."""
    compiled = [tried for tried in attempts() if tried.model is not None]
    return [
        Case(tried.entry.solver, tried.entry.kernel, tried.entry.target)
        for tried in compiled[:: 3 if fast else 1]
    ]
