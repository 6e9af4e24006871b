"""Diagonal preconditioners: the rate that they buy, and how near Jacobi's is to the best of them."""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention, compile
from ridgeformer.experiments.theorems.base import Line, Outcome, Theorem, ratios
from ridgeformer.experiments.theorems.depth import STEPS, curves
from ridgeformer.models import trajectory
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


def scaling_ratios(prompt: Prompt, ridge: float, scaling: Tensor) -> list[np.ndarray]:
    """cond(S_J) over its bound with λ_max(S_J), and that bound over the one with k."""
    jacobi = theory.preconditioned_condition(prompt, ridge=ridge, precondition="jacobi")
    bound = theory.jacobi_condition_bound(prompt, scaling, ridge=ridge)
    system = theory.preconditioned_system(prompt, ridge=ridge)
    last = prompt.supports * condition_of(system, scaling)
    return [ratios(jacobi.numpy(), bound.numpy(), 0.0), ratios(bound.numpy(), last.numpy(), 0.0)]


class DiagonalPreconditioners(Theorem):
    name = "diagonal-preconditioners"
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
        rates, lines = jacobi_rates(prompt, steps)
        collected = [rates]
        generator = torch.Generator().manual_seed(seed)
        for spread in (0.0, 0.5, 2.0):
            noise = torch.randn(prompts, SUPPORTS, 1, generator=generator, dtype=torch.float64)
            collected += scaling_ratios(prompt, RIDGE, (spread * noise).exp())
        collected += scaling_ratios(prompt, RIDGE, optimised(prompt, RIDGE, 20 if fast else 100))
        tight, ridge = nearly_tight()
        collected += scaling_ratios(
            tight, ridge, torch.ones(1, tight.supports, 1, dtype=torch.float64)
        )
        settings = (
            f"{prompts} prompts of {SUPPORTS} badly scaled supports, {steps} steps; 5 diagonals, one of "
            "them optimised, and the nearly tight case"
        )
        return Outcome(settings, np.concatenate(collected), lines, STEPS)


def jacobi_rates(prompt: Prompt, steps: int) -> tuple[np.ndarray, list[Line]]:
    """Compiled CG with Jacobi's preconditioner, and without one as control, each by its own bound."""
    exact = krr(prompt, ridge=RIDGE)
    top = float(torch.linalg.matrix_norm(prompt.phi, 2).square().max())
    collected, lines = [], []
    kinds: dict[str, Precondition] = {"jacobi": "jacobi", "plain CG (control)": "none"}
    for name, kind in kinds.items():
        model = compile(
            ConjugateGradient(kind), features=prompt.features, steps=steps, ridge=RIDGE,
            to=LinearAttention(top, products=Exact()),
        )  # fmt: skip
        error = (trajectory(model, prompt).predictions - exact).abs().numpy()
        bound = theory.cg_prediction_bound(
            prompt, ridge=RIDGE, steps=steps, precondition=kind
        ).numpy()
        collected.append(ratios(error, bound, 1e-10 * float(exact.abs().max())))
        lines += curves(name, error, bound)
    return np.concatenate(collected), lines
