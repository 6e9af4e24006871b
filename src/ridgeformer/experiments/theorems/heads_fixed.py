"""Methods with fixed coefficients on dot products from softmax heads: old errors, and predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import HeadPairs, SoftmaxAttention
from ridgeformer.experiments.theorems.base import SOFTMAX, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.kernels import Linear
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import Chebyshev, EagerMachine, GradientDescent, HeavyBall, Solver, solve
from ridgeformer.tasks import Prompt
from ridgeformer.theory.sensitivity import SpectralMachine, iterates

SOLVERS = (GradientDescent(), HeavyBall(), Chebyshev())
INTERVAL = (1.0, 30.0)
LONG_RUN = 160
"""Steps after which old errors no longer count: for κ = 30 ϱ^160 is 2e-5."""
ERROR, RIDGE = 1e-6, 1.0
CLOSED = {"gd": NEARLY, "heavy-ball": NEARLY, "chebyshev": 0.4}
"""Of its closed form Chebyshev iteration reaches a half: a factor 1 + θ²ˢ is counted as 2 for every s."""
OF_STEPS = 0.15
"""A prediction reaches .22 to .46: the largest error counts for all steps, on the worst mode, also in the first."""
OF_ROUND_OFF = 0.002
"""Roundings of compiled models in float32, where they rule, reach .003: those of all tokens, heads and steps would
have to conspire."""


@dataclass(frozen=True)
class GivenErrors(theory.HeadPairErrors):
    """A product that is off by a part of K that is known, where nothing rounds."""

    part: float = 0.0

    @property
    def operator(self) -> float:
        return self.part * self.max_norm**2

    @property
    def entry(self) -> float:
        return self.part * self.max_norm**2


class TooLarge(EagerMachine):
    """Products with K, and the readings of queries, are too large by a part."""

    def kernel_product(self, v: Tensor) -> Tensor:
        return (1 + ERROR) * super().kernel_product(v)

    def predict(self, alpha: Tensor) -> Tensor:
        return (1 + ERROR) * super().predict(alpha)


class HeadsFixed(Theorem):
    name = "heads-fixed"
    group = SOFTMAX
    title = "What inexact dot products and updates cost methods with fixed coefficients"
    states = ("heads-fixed",)
    measured = (
        "Sums of the responses to errors of all steps, on 2001 eigenvalues, against their closed forms; prompts of one "
        "support with products too large by 1e-6; and compiled models in float32 at the scale that they are given."
    )
    see = "Difference after T steps where products are too large by 1e-6, under its bound."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m = Measurement()
        for solver in SOLVERS:
            measured, bound = old_errors(solver)
            m.compare(
                measured, bound, part=f"{solver.name}, closed form", reach=CLOSED[solver.name]
            )
            for steps in (1, 2, 4, 8):
                apart, most = one_support(solver, steps)
                m.at(solver.name, steps, apart, most, each=True, reach=OF_STEPS)
            m.compare(
                *in_single(solver, 16 if fast else 64, seed), part="float32", reach=OF_ROUND_OFF
            )
        settings = f"3 methods, κ = {INTERVAL[1]:g}, T = 1, 2, 4, 8 and {LONG_RUN}"
        return m.outcome(settings, Axes("steps T", "|f̂_T − f_T|", log_x=True))


def old_errors(solver: Solver, steps: int = LONG_RUN) -> tuple[float, float]:
    """Σ_s max_σ |R_{T,s}(σ)| for T = `steps`, and its closed form."""
    machine = SpectralMachine(np.linspace(*INTERVAL, 2001), INTERVAL, errors=steps)
    found = float(np.abs(iterates(machine, solver, steps)[-1]).max(axis=1).sum())
    known = theory.long_sensitivity(solver, steps=steps, tuned=INTERVAL, spectrum=INTERVAL)
    return found, known.iterate


def one_support(solver: Solver, steps: int) -> tuple[Tensor, float]:
    """How far the prediction at the support is off, and the bound, for several lengths of its feature."""
    size = (
        torch.linspace(0.2, 1.0, 9, dtype=torch.float64)[:, None, None]
        * (INTERVAL[1] - RIDGE) ** 0.5
    )
    prompt = Prompt(size, torch.ones_like(size), size[-1:].expand_as(size).contiguous())
    machine = TooLarge(prompt, Linear(), RIDGE)
    machine.fixed_interval = INTERVAL
    state = solver.init(machine)
    for t in range(1, steps + 1):
        state = solver.step(machine, state, t)
    clean = solve(solver, prompt, steps=steps, ridge=RIDGE, interval=INTERVAL, states=True)
    largest = clean.states["alpha"].abs().amax(0)
    errors = GivenErrors(1, 1, 1e-3, 1, float(size.max()), part=ERROR * (1 + 1e-6))
    response = theory.sensitivity(
        solver, steps=steps, tuned=INTERVAL, spectrum=INTERVAL, offset=RIDGE
    )
    most = theory.heads_fixed_bound(
        response, errors, update=0.0, ridge=RIDGE, centre=sum(INTERVAL) / 2
    )
    return (machine.predict(state.alpha) - clean.final).abs() / largest, most


def in_single(solver: Solver, prompts: int, seed: int) -> tuple[Tensor, float]:
    """What compiled models in float32 are off by, over R²·max_s ‖α_s‖₁, and what is proved of that."""
    generator = torch.Generator().manual_seed(seed)
    draws = [torch.rand(prompts, n, 2, generator=generator).double() - 0.5 for n in (6, 6)]
    y = torch.randn(prompts, 6, 1, generator=generator).double()
    prompt = Prompt(draws[0], y, draws[1]).to(torch.float32)
    to = SoftmaxAttention(1.0, 6, dot_products=HeadPairs(2))
    model = compiled(solver, prompt, to, steps=6, ridge=4.0, dtype="float32")
    exact = reference(model, prompt, states=True)
    apart = (trajectory(model, prompt).predictions.double() - exact.predictions).abs()
    unit = exact.states["alpha"].abs().sum(2).amax(0)[:, None]
    assert model.certificate.relative_error is not None
    return apart / unit, model.certificate.relative_error
