"""Rates with a preconditioner and with several outputs, on compiled models and numerics."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer.compiler import compile
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.readout import trajectory
from ridgeformer.solvers import BlockCG, Chebyshev, EagerMachine, Richardson, krr, solve
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.theory import (
    block_cg_prediction_bound,
    chebyshev_prediction_bound,
    richardson_prediction_bound,
)
from ridgeformer.verification.base import Axes, Outcome, Theorem, ratios
from ridgeformer.verification.depth import STEPS, curves


class RowSumRate(Theorem):
    name = "row-sum-rate"
    title = "Softmax Richardson takes κ' steps per digit, Chebyshev √κ'"
    statement = (
        "|f_t − f*| ≤ √(k(x)ᵀA⁻¹k(x)) · factor(t) · ‖α*‖<sub>A</sub> with ((κ'−1)/(κ'+1))<sup>t</sup> for "
        "Richardson and 1/T<sub>t</sub>((κ'+1)/(κ'−1)) for Chebyshev, preconditioned by softmax's own row "
        "sums D, κ' = cond(D⁻¹A): the factor that O(log 1/ε) hides. Measured on compiled softmax models."
    )
    see = "One block per step: both compiled models lie under their bounds."

    def measure(self, seed: int, fast: bool) -> Outcome:
        kernel, ridge, supports = Gaussian(0.7), 0.2, 16
        steps, prompts = (16, 8) if fast else (48, 64)
        drawn = KernelDraw(kernel=kernel, features=2, supports=supports, scale=0.4).draw(
            prompts, seed
        )

        def inside(x: torch.Tensor) -> torch.Tensor:
            longest: torch.Tensor = x.norm(dim=-1, keepdim=True)
            return x * (1.5 / longest).clamp(max=1.0)

        prompt = Prompt(inside(drawn.phi), drawn.y, inside(drawn.phi_query))
        interval = EagerMachine(prompt, kernel, ridge).interval("row-sum")
        exact = krr(prompt, ridge=ridge, kernel=kernel)
        found, lines = [], []
        for solver, bounded in (
            (Richardson("row-sum"), richardson_prediction_bound),
            (Chebyshev("row-sum"), chebyshev_prediction_bound),
        ):
            model = compile(
                solver,
                features=2,
                steps=steps,
                ridge=ridge,
                kernel=kernel,
                attention="softmax",
                mlp="reglu",
                max_norm=1.5,
                max_supports=supports,
                interval=interval,
            )
            error = (trajectory(model, prompt).predictions - exact).abs().numpy()
            bound = bounded(
                prompt,
                ridge=ridge,
                steps=steps,
                kernel=kernel,
                precondition="row-sum",
                interval=interval,
            ).numpy()
            found.append(ratios(error, bound, 1e-9))
            lines += curves(solver.name, error, bound)
        settings = f"Gaussian kernel, {prompts} prompts of {supports} supports, {steps} steps"
        return Outcome(settings, np.concatenate(found), lines, STEPS)


class SeveralOutputs(Theorem):
    name = "several-outputs"
    title = "Block CG is at least as fast as its outputs apart"
    statement = (
        "|f_t − f*| ≤ √(k(x)ᵀA⁻¹k(x)) · ‖α*‖<sub>A</sub> / T<sub>t</sub>((κ+1)/(κ−1)) for every output of block "
        "CG, whose Krylov space contains those of the outputs."
    )
    see = "Block CG's worst output, step by step, under the bound for a single one."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps, outputs = (8, 5, 3) if fast else (64, 6, 3)
        task = KernelDraw(kernel=Linear(), features=16, supports=24, outputs=outputs, scale=0.5)
        prompt = task.draw(prompts, seed)
        exact = krr(prompt, ridge=1.0)
        error = (solve(BlockCG(), prompt, steps=steps, ridge=1.0).predictions - exact).abs().numpy()
        bound = block_cg_prediction_bound(prompt, ridge=1.0, steps=steps).numpy()
        settings = f"{outputs} outputs, {prompts} prompts of 24 supports, {steps} steps"
        axes = Axes("step", "|f_t − f*|, worst output")
        lines = curves("block CG", error, bound)
        return Outcome(settings, ratios(error, bound, 1e-9), lines, axes)
