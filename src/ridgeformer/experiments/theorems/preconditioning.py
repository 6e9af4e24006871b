"""Diagonal preconditioners: the rate that they buy, and how near Jacobi's is to the best of them."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention
from ridgeformer.experiments.theorems.base import RATES, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled, prediction_errors
from ridgeformer.experiments.theorems.depth import STEPS
from ridgeformer.experiments.theorems.hard import NEARLY, hard_for_jacobi, met
from ridgeformer.solvers import ConjugateGradient, krr
from ridgeformer.solvers.machine import Precondition
from ridgeformer.tasks import KernelDraw, Prompt

RIDGE, SUPPORTS = 0.1, 12


def badly_scaled(prompts: int, seed: int) -> Prompt:
    """Supports whose lengths differ by some factor of a hundred."""
    prompt = KernelDraw(features=16, supports=SUPPORTS, scale=0.5).draw(prompts, seed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(prompts, SUPPORTS, 1, generator=generator, dtype=torch.float64)
    scale = (1.2 * noise).exp()
    return Prompt(scale * prompt.phi, scale * prompt.y, prompt.phi_query)


def condition_of(system: Tensor, scaling: Tensor) -> Tensor:
    """cond(D A D)"""
    values: Tensor = torch.linalg.eigvalsh(scaling * system * scaling.mT)
    return values[:, -1] / values[:, 0]


def optimised(prompt: Prompt, ridge: float, steps: int) -> Tensor:
    """A diagonal D with a small cond(D A D): descent on its logarithm, from Jacobi's."""
    system = theory.preconditioned_system(prompt, ridge=ridge)
    logs = -0.5 * system.diagonal(dim1=1, dim2=2).log()[..., None]
    best, least = logs, condition_of(system, logs.exp())
    for step in range(steps):
        point = logs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(condition_of(system, point.exp()).log().sum(), point)
        size: Tensor = slope.norm(dim=1, keepdim=True)
        logs = logs - 0.3 * (1 - step / steps) * slope / size.clamp(min=1e-30)
        condition = condition_of(system, logs.exp())
        better = condition < least
        best = torch.where(better[:, None, None], logs, best)
        least = torch.minimum(condition, least)
    return best.exp()


def nearly_tight(k: int = 8, near: float = 1e-8, far: float = 1e-4) -> tuple[Prompt, float]:
    """Two supports that nearly agree, and small ones that agree with them less: Jacobi is misled."""
    ridge = 1e-14
    spread = torch.tensor([near] * 2 + [far] * (k - 2), dtype=torch.float64)
    size = torch.tensor([1.0] * 2 + [sqrt(near / far)] * (k - 2), dtype=torch.float64)
    root = (1 - spread).sqrt()
    system = size[:, None] * (root[:, None] * root + spread.diag()) * size
    phi = torch.linalg.cholesky(system - ridge * torch.eye(k, dtype=torch.float64))[None]
    return Prompt(phi, torch.ones(1, k, 1, dtype=torch.float64), phi[:, :1]), ridge


def compare_scaling(m: Measurement, prompt: Prompt, ridge: float, scaling: Tensor) -> None:
    """cond(S_J) over its bound with λ_max(S_J), and that bound over the one with k."""
    jacobi = theory.preconditioned_condition(prompt, ridge=ridge, precondition="jacobi")
    bound = theory.jacobi_condition_bound(prompt, scaling, ridge=ridge)
    system = theory.preconditioned_system(prompt, ridge=ridge)
    most = prompt.supports * condition_of(system, scaling)
    m.compare(jacobi, bound, part="cond(S_J) by λ_max(S_J)", reach=NEARLY)
    m.compare(bound, most, part="λ_max(S_J) by k", reach=NEARLY)


class DiagonalPreconditioners(Theorem):
    name = "diagonal-preconditioners"
    group = RATES
    title = "Jacobi's preconditioner: its rate, and a factor k from the best diagonal"
    states = ("diagonal-preconditioners",)
    measured = (
        "Compiled CG with Jacobi's preconditioner stays under the bound of CG with κ = cond(J^−1/2 A "
        "J^−1/2), and five diagonals, one of them optimised, obey both inequalities."
    )
    see = (
        "Supports of very different lengths: Jacobi-CG under its bound, and plain CG far behind it."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (6, 8) if fast else (10, 64)
        prompt = badly_scaled(prompts, seed)
        m, generator = Measurement(), torch.Generator().manual_seed(seed)
        jacobi_rates(m, prompt, steps)
        for spread in (0.0, 0.5, 2.0):
            noise = torch.randn(prompts, SUPPORTS, 1, generator=generator, dtype=torch.float64)
            compare_scaling(m, prompt, RIDGE, (spread * noise).exp())
        compare_scaling(m, prompt, RIDGE, optimised(prompt, RIDGE, 20 if fast else 100))
        tight, ridge = nearly_tight()
        compare_scaling(m, tight, ridge, torch.ones_like(tight.y))
        for t in range(1, steps + 1):
            hardest(m, t)
        orthogonal(m, steps)
        settings = (
            f"{prompts} prompts of {SUPPORTS} badly scaled supports, {steps} steps; for each step the badly scaled "
            "supports that are hardest for it, and orthogonal ones; 5 diagonals, one of them optimised, and the "
            "nearly tight case"
        )
        return m.outcome(settings, STEPS)


def jacobi_rates(m: Measurement, prompt: Prompt, steps: int) -> None:
    """Compiled CG with Jacobi's preconditioner, and without one as control, each by its own bound."""
    floor = 1e-10 * float(krr(prompt, ridge=RIDGE).abs().max())
    top = float(torch.linalg.matrix_norm(prompt.phi, 2).square().max())
    to = LinearAttention(top, products=Exact())
    kinds: dict[str, Precondition] = {"jacobi": "jacobi", "plain CG (control)": "none"}
    for name, kind in kinds.items():
        model = compiled(ConjugateGradient(kind), prompt, to, steps=steps, ridge=RIDGE)
        bound = theory.cg_prediction_bound(prompt, ridge=RIDGE, steps=steps, precondition=kind)
        # Random prompts are not the hardest of their steps.
        errors = prediction_errors(model, prompt)
        m.by_step(name, errors, bound, floor, first=0, whole=True, reach=0.1)


def hardest(m: Measurement, steps: int, condition: float = 30.0) -> None:
    """The last of these steps where Jacobi leaves the spectrum that is worst for it."""
    scale = 10.0 ** torch.linspace(0, 1.5, steps + 1, dtype=torch.float64)
    prompt = hard_for_jacobi(RIDGE, RIDGE * condition, steps, scale, RIDGE / 2)
    top = float(torch.linalg.matrix_norm(prompt.phi, 2).square().max())
    to = LinearAttention(top, products=Exact())
    model = compiled(ConjugateGradient("jacobi"), prompt, to, steps=steps, ridge=RIDGE / 2)
    bound = theory.cg_prediction_bound(prompt, ridge=RIDGE / 2, steps=steps, precondition="jacobi")[
        -1
    ]
    error, reach = prediction_errors(model, prompt)[-1], NEARLY * met(condition, steps)
    m.at("hardest", steps, error, bound, 1e-9, each=True, reach=reach)


def orthogonal(m: Measurement, steps: int) -> None:
    """Orthogonal supports of lengths about √λ: Jacobi leaves the identity, and CG ends with its first step."""
    lengths = torch.linspace(0.1, 2, SUPPORTS, dtype=torch.float64)
    y = torch.ones(1, SUPPORTS, 1, dtype=torch.float64)
    prompt = Prompt(lengths.diag()[None], y, torch.ones(1, 1, SUPPORTS, dtype=torch.float64))
    to = LinearAttention(4.0, products=Exact())
    model = compiled(ConjugateGradient("jacobi"), prompt, to, steps=steps, ridge=1.0)
    exact = float(krr(prompt, ridge=1.0).abs().max())
    m.compare(prediction_errors(model, prompt)[1:], 1e-9 * exact)
    diagonal = theory.preconditioned_system(prompt, ridge=1.0).diagonal(dim1=1, dim2=2)
    compare_scaling(m, prompt, 1.0, diagonal[..., None].rsqrt())  # where both conditions are 1
