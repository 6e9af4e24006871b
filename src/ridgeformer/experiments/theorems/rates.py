"""Rates with a preconditioner and with several outputs, on compiled models and numerics."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer.compiler import compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.experiments.theorems.depth import STEPS, curves
from ridgeformer.experiments.theorems.hard import hard_for_outputs
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import (
    BlockCG,
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    HeavyBall,
    Richardson,
    Solver,
    krr,
    solve,
)
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.theory import (
    block_cg_energy_bound,
    block_cg_prediction_bound,
    chebyshev_prediction_bound,
    energy_error,
    perturbed_prediction_bound,
    residual_gap_bound,
    richardson_prediction_bound,
    system_eigenvalues,
)


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
        task = KernelDraw(kernel=kernel, features=2, supports=supports, scale=0.4)
        prompt = task.draw(prompts, seed).inside(1.5)
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
            found.append(ratios(error[1:], bound[1:], 1e-9))
            lines += curves(solver.name, error, bound)
        settings = f"Gaussian kernel, {prompts} prompts of {supports} supports, {steps} steps"
        return Outcome(settings, np.concatenate(found), lines, STEPS)


class SeveralOutputs(Theorem):
    name = "several-outputs"
    title = "Block CG is at least as fast as its outputs apart, and no rate is better for all"
    statement = (
        "|f_t − f*| ≤ √(k(x)ᵀA⁻¹k(x)) · ‖α*‖<sub>A</sub> / T<sub>t</sub>((κ+1)/(κ−1)) for every output, by r "
        "recurrences that share one mat-vec head (compiled) and by block CG, whose error in the A-norm is "
        "never larger: its Krylov space contains those of the outputs. Outputs that live in invariant "
        "subspaces of their own gain nothing."
    )
    see = (
        "On random outputs block CG needs fewer steps than the compiled recurrences that share a head; "
        "where outputs share nothing, the hardest case, all three lines meet."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps, outputs = (8, 5, 3) if fast else (64, 6, 3)
        task = KernelDraw(kernel=Linear(), features=16, supports=24, outputs=outputs, scale=0.5)
        hard = hard_for_outputs(1.0, 19.0, steps, outputs)
        found, lines = [], []
        for label, prompt in (("random", task.draw(prompts, seed)), ("hardest", hard)):
            exact = krr(prompt, ridge=1.0)
            block = solve(BlockCG(), prompt, steps=steps, ridge=1.0, states=True)
            model = compile(
                ConjugateGradient(),
                features=prompt.features,
                outputs=outputs,
                steps=steps,
                ridge=1.0,
                max_eigenvalue=float(system_eigenvalues(prompt, ridge=1.0).max()),
            )
            bound = block_cg_prediction_bound(prompt, ridge=1.0, steps=steps).numpy()
            drawn = []
            runs = {"shared head, compiled": trajectory(model, prompt), "block CG": block}
            for name, run in runs.items():
                error = (run.predictions - exact).abs().numpy()
                found.append(ratios(error[1:], bound[1:], 1e-9))
                drawn += curves(f"{label}: {name}", error, bound)
            lines += drawn[:3]  # one bound for both
            energy = energy_error(block.states["alpha"], prompt, ridge=1.0).numpy()
            alone = block_cg_energy_bound(prompt, ridge=1.0, steps=steps).numpy()
            found.append(ratios(energy[2:], alone[2:], 1e-9))
        settings = (
            f"{outputs} outputs, {prompts} prompts of 24 supports and the hardest, {steps} steps"
        )
        axes = Axes("step", "|f_t − f*|, worst output")
        return Outcome(settings, np.concatenate(found), lines, axes)


class InexactFixed(Theorem):
    name = "inexact-fixed-coefficients"
    title = "Errors of residuals reach a prediction by the recurrence's own responses"
    statement = (
        "|f̂<sub>T</sub> − f<sub>T</sub>| ≤ 2<sup>1/4</sup>·√k(x,x) · e · Σ<sub>s&lt;T</sub> max<sub>σ</sub> √(σ − λ)"
        "|R<sub>T,s</sub>(σ)| when each residual carries an error of norm e at most; R<sub>T,s</sub> is the "
        "response of iterate T to an impulse in step s, σ runs over the interval of tuning."
    )
    see = (
        "Error of a prediction against the number of inexact steps: it settles, as the bound does."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, error, ridge = (8, 1e-3, 1.0) if fast else (64, 1e-3, 1.0)
        steps_tried = (1, 2, 4, 8, 16) if fast else (1, 2, 4, 8, 16, 32, 64)
        prompt = KernelDraw(kernel=Linear(), features=6, supports=12, scale=0.5).draw(prompts, seed)
        # A query that meets the longest support, and errors along the largest mode: near the worst.
        system = EagerMachine(prompt, Linear(), ridge).dense_system()
        top = torch.linalg.eigh(system).eigenvectors[..., -1:]
        seen = (prompt.phi.mT @ top).mT
        prompt = Prompt(prompt.phi, prompt.y, torch.cat([seen, prompt.phi_query], dim=1))
        found, lines = [], []
        methods: tuple[Solver, ...] = (Richardson(), Chebyshev(), HeavyBall())
        for solver in methods:
            worst, bounds = [], []
            for steps in steps_tried:
                off = WrongResiduals(prompt, ridge, error * top)
                state = solver.init(off)
                for t in range(1, steps + 1):
                    state = solver.step(off, state, t)
                clean = solve(solver, prompt, steps=steps, ridge=ridge).final
                apart = (off.predict(state.alpha) - clean)[..., 0].abs().numpy()
                bound = perturbed_prediction_bound(
                    solver, prompt, ridge=ridge, steps=steps, residual_error=error
                ).numpy()
                found.append(ratios(apart, bound, 1e-12))
                worst.append(float(apart.max()))
                bounds.append(float(bound.max()))
            lines += [
                Line(solver.name, steps_tried, worst),
                Line(f"{solver.name}, bound", steps_tried, bounds, bound=True),
            ]
        settings = (
            f"3 methods, {len(steps_tried)} depths, {prompts} prompts of 12 supports, e = {error:g}"
        )
        axes = Axes("steps", "|f̂_T − f_T|", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


class WrongResiduals(EagerMachine):
    """A machine whose mat-vec is off by a fixed vector."""

    def __init__(self, prompt: Prompt, ridge: float, error: torch.Tensor) -> None:
        super().__init__(prompt, Linear(), ridge)
        self.error = error

    def kernel_product(self, v: torch.Tensor) -> torch.Tensor:
        return super().kernel_product(v) + self.error


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
    statement = (
        "‖(y − Aα_t) − r_t‖ ≤ ε·Σ<sub>s&lt;t</sub>‖α<sub>s+1</sub> − α<sub>s</sub>‖ when CG takes (A + E)p for Ap, "
        "‖E‖ ≤ ε: the residual that it carries along parts from the true one by no more."
    )
    see = "Gap between the true and the carried residual, step by step, under the bound for each ε."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps = (8, 6) if fast else (64, 12)
        task = KernelDraw(kernel=Linear(), features=12, supports=20, scale=0.5)
        prompt = task.draw(prompts, seed)
        system = EagerMachine(prompt, Linear(), 1.0).dense_system()
        found, lines = [], []
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
            bound = residual_gap_bound(alphas, operator_error=error).numpy()
            found.append(ratios(gap[1:], bound[1:], 1e-11))
            lines += curves(f"ε = {error:g}", gap[1:], bound[1:], first=1)
        settings = f"3 sizes of error, {prompts} prompts of 20 supports, {steps} steps"
        axes = Axes("step", "‖true − carried residual‖")
        return Outcome(settings, np.concatenate(found), lines, axes)
