"""Rates with a preconditioner and with several outputs, on compiled models and numerics."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.theorems.base import Axes, Outcome, Theorem, ratios
from ridgeformer.experiments.theorems.depth import STEPS, curves
from ridgeformer.experiments.theorems.hard import hard_for_outputs
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import (
    BlockCG,
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    Richardson,
    krr,
    solve,
)
from ridgeformer.tasks import KernelDraw, Prompt


class RowSumRate(Theorem):
    name = "row-sum-rate"
    title = "Softmax Richardson takes κ' steps per digit, Chebyshev √κ'"
    states = ("row-sums",)
    measured = (
        "Compiled softmax models with row sums as preconditioner stay under the bound of their own "
        "rate, with κ' for κ."
    )
    see = "One block per step: both compiled models lie under their bounds."

    def measure(self, seed: int, fast: bool) -> Outcome:
        kernel, ridge, supports = Gaussian(0.7), 0.2, 16
        steps, prompts = (16, 8) if fast else (48, 64)
        task = KernelDraw(kernel=kernel, features=2, supports=supports, scale=0.4)
        prompt = task.draw(prompts, seed).inside(1.5)
        interval = EagerMachine(prompt, kernel, ridge).interval("row-sum")
        exact = krr(prompt, ridge=ridge, kernel=kernel)
        collected, lines = [], []
        for solver, bounded in (
            (Richardson("row-sum", interval), theory.richardson_prediction_bound),
            (Chebyshev("row-sum", interval), theory.chebyshev_prediction_bound),
        ):
            model = compile(
                solver,
                features=2,
                steps=steps,
                ridge=ridge,
                kernel=kernel,
                to=SoftmaxAttention(1.5, supports),
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
            collected.append(ratios(error[1:], bound[1:], 1e-9))
            lines += curves(solver.name, error, bound)
        settings = f"Gaussian kernel, {prompts} prompts of {supports} supports, {steps} steps"
        return Outcome(settings, np.concatenate(collected), lines, STEPS)


class SeveralOutputs(Theorem):
    name = "several-outputs"
    title = "Block CG is at least as fast as its outputs apart, and no rate is better for all"
    states = ("several-outputs",)
    measured = (
        "The r recurrences that share a head are compiled, and block CG is run beside them; its error "
        "in the norm of A is never larger."
    )
    see = (
        "On random outputs block CG needs fewer steps than the compiled recurrences that share a head; "
        "where outputs share nothing, the hardest case, all three lines meet."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps, outputs = (8, 5, 3) if fast else (64, 6, 3)
        task = KernelDraw(kernel=Linear(), features=16, supports=24, outputs=outputs, scale=0.5)
        hard = hard_for_outputs(1.0, 19.0, steps, outputs)
        collected, lines = [], []
        for label, prompt in (("random", task.draw(prompts, seed)), ("hardest", hard)):
            exact = krr(prompt, ridge=1.0)
            block = solve(BlockCG(), prompt, steps=steps, ridge=1.0, states=True)
            model = compile(
                ConjugateGradient(),
                features=prompt.features,
                outputs=outputs,
                steps=steps,
                ridge=1.0,
                to=LinearAttention(float(theory.system_eigenvalues(prompt, ridge=1.0).max())),
            )
            bound = theory.block_cg_prediction_bound(prompt, ridge=1.0, steps=steps).numpy()
            drawn = []
            runs = {"shared head, compiled": trajectory(model, prompt), "block CG": block}
            for name, run in runs.items():
                error = (run.predictions - exact).abs().numpy()
                collected.append(ratios(error[1:], bound[1:], 1e-9))
                drawn += curves(f"{label}: {name}", error, bound)
            lines += drawn[:3]  # one bound for both
            energy = theory.energy_error(block.states["alpha"], prompt, ridge=1.0).numpy()
            alone = theory.block_cg_energy_bound(prompt, ridge=1.0, steps=steps).numpy()
            collected.append(ratios(energy[2:], alone[2:], 1e-9))
        settings = (
            f"{outputs} outputs, {prompts} prompts of 24 supports and the hardest, {steps} steps"
        )
        axes = Axes("step", "|f_t − f*|, worst output")
        return Outcome(settings, np.concatenate(collected), lines, axes)


class Disturbed(EagerMachine):
    """A machine whose mat-vec is off by a fixed symmetric matrix of norm ε."""

    def __init__(self, prompt: Prompt, ridge: float, error: float, seed: int) -> None:
        super().__init__(prompt, Linear(), ridge)
        generator = torch.Generator().manual_seed(seed)
        k = prompt.supports
        noise = torch.randn(len(prompt.phi), k, k, generator=generator, dtype=torch.float64)
        noise = noise + noise.mT
        norm: torch.Tensor = torch.linalg.matrix_norm(noise, 2)
        self.noise = error * noise / norm[:, None, None]

    def kernel_product(self, v: torch.Tensor) -> torch.Tensor:
        return super().kernel_product(v) + self.noise @ v


class InexactCG(Theorem):
    name = "inexact-cg"
    title = "Errors of the mat-vec add up, and no faster than the steps"
    states = ("inexact-cg",)
    measured = "CG takes (A + E)p for Ap with a random symmetric E of norm ε."
    see = "Gap between the true and the carried residual, step by step, under the bound for each ε."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps = (8, 6) if fast else (64, 12)
        task = KernelDraw(kernel=Linear(), features=12, supports=20, scale=0.5)
        prompt = task.draw(prompts, seed)
        system = EagerMachine(prompt, Linear(), 1.0).dense_system()
        collected, lines = [], []
        for error in (1e-2, 1e-4, 1e-6):
            machine, solver = Disturbed(prompt, 1.0, error, seed), ConjugateGradient()
            state = solver.init(machine)
            states = [state]
            for t in range(1, steps + 1):
                state = solver.step(machine, state, t)
                states.append(state)
            alphas = torch.stack([s.alpha for s in states])
            carried = torch.stack([s.scale * s.r for s in states])
            gap = (prompt.y - system @ alphas - carried).norm(dim=2).numpy()
            bound = theory.residual_gap_bound(alphas, operator_error=error).numpy()
            collected.append(ratios(gap[1:], bound[1:], 1e-11))
            lines += curves(f"ε = {error:g}", gap[1:], bound[1:], first=1)
        settings = f"3 sizes of error, {prompts} prompts of 20 supports, {steps} steps"
        axes = Axes("step", "‖true − carried residual‖")
        return Outcome(settings, np.concatenate(collected), lines, axes)
