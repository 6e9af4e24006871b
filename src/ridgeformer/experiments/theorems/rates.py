"""Rates with a preconditioner and with several outputs, on compiled models and numerics."""

from __future__ import annotations

import torch

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention, SoftmaxAttention
from ridgeformer.experiments.theorems.base import ERRORS, RATES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled, prediction_errors
from ridgeformer.experiments.theorems.depth import STEPS
from ridgeformer.experiments.theorems.hard import NEARLY, hard_for_outputs
from ridgeformer.kernels import Gaussian, Linear
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
    group = RATES
    title = "Softmax Richardson takes κ' steps per digit, Chebyshev √κ'"
    states = ("row-sums",)
    measured = (
        "Compiled softmax models with row sums as preconditioner stay under the bound of their own "
        "rate, with κ' for κ."
    )
    see = "One block per step: both compiled models lie under their bounds."

    def measure(self, seed: int, fast: bool) -> Outcome:
        kernel, ridge, supports = Gaussian(0.7), 0.2, 16
        steps, prompts = (16, 32) if fast else (48, 64)
        task = KernelDraw(kernel=kernel, features=2, supports=supports, scale=0.4)
        prompt = task.draw(prompts, seed).inside(1.5)
        interval = EagerMachine(prompt, kernel, ridge).interval("row-sum")
        m, to = Measurement(), SoftmaxAttention(1.5, supports)
        for solver, factor in (
            (Richardson("row-sum", interval), theory.richardson_factor),
            (Chebyshev("row-sum", interval), theory.chebyshev_factor),
        ):
            model = compiled(solver, prompt, to, steps=steps, ridge=ridge, kernel=kernel)
            bound = theory.tuned_prediction_bound(
                factor,
                prompt,
                ridge=ridge,
                steps=steps,
                kernel=kernel,
                precondition="row-sum",
                interval=interval,
            )
            # Random prompts: each step comes this near, and the spectrum itself is `row-sum-spectrum`'s.
            errors = prediction_errors(model, prompt, kernel)
            m.by_step(solver.name, errors, bound, 1e-9, reach=0.15)
        settings = f"Gaussian kernel, {prompts} prompts of {supports} supports, {steps} steps"
        return m.outcome(settings, STEPS)


class SeveralOutputs(Theorem):
    name = "several-outputs"
    group = RATES
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
        m = Measurement()
        # Random prompts are not the hardest of their steps.
        compare_outputs(m, "random", task.draw(prompts, seed), steps, reach=0.1)
        for t in range(1, steps + 1):
            hard = hard_for_outputs(1.0, 2 * CONDITION - 1, t, outputs)
            compare_outputs(m, "hardest", hard, t, reach=NEARLY)
        settings = f"{outputs} outputs, {prompts} prompts of 24 supports, {steps} steps, and the hardest prompt for each"
        return m.outcome(settings, Axes("step", "|f_t − f*|, worst output"))


CONDITION = 10.0


def compare_outputs(m: Measurement, label: str, prompt: Prompt, steps: int, reach: float) -> None:
    """The compiled recurrences and block CG; of the hardest prompts the last step alone is judged."""
    block = solve(BlockCG(), prompt, steps=steps, ridge=1.0, states=True)
    top = float(theory.system_eigenvalues(prompt, ridge=1.0).max())
    model = compiled(ConjugateGradient(), prompt, LinearAttention(top), steps=steps)
    bound = theory.block_cg_prediction_bound(prompt, ridge=1.0, steps=steps)
    exact = krr(prompt, ridge=1.0)
    energy = theory.energy_error(block.states["alpha"], prompt, ridge=1.0)
    alone = theory.block_cg_energy_bound(prompt, ridge=1.0, steps=steps)
    hard = label == "hardest"
    shared, apart = f"{label}: shared head, compiled", (block.predictions - exact).abs()
    errors = {shared: prediction_errors(model, prompt), f"{label}: block CG": apart}
    for name, error in errors.items():
        if hard:
            m.at(name, steps, error[-1], bound[-1], 1e-9, each=True, reach=reach)
        else:
            m.compare(error[1:], bound[1:], 1e-9, part=name, reach=reach)
            m.draw_steps(name, error)
    if not hard:
        for t, at_step in enumerate(bound):
            m.draw_bound(shared, t, at_step)
    # After one step both are the same, which is no case of the theorem.
    part = f"{label}: energy" + (f", t = {steps}" if hard else "")
    if steps > 1:
        m.compare(energy[2:], alone[2:], 1e-9, part=part, reach=NEARLY if hard else 0.1)


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


def disturbed_cg(
    prompt: Prompt, steps: int, error: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """α_t and the residuals that CG carries, with products that are off, for λ = 1."""
    machine, solver = Disturbed(prompt, 1.0, error, seed), ConjugateGradient()
    states = [solver.init(machine)]
    for t in range(1, steps + 1):
        states.append(solver.step(machine, states[-1], t))
    return torch.stack([s.alpha for s in states]), torch.stack([s.scale * s.r for s in states])


def one_support(m: Measurement, seed: int) -> None:
    """A support with K = λ = 1: after a step the gap is all of the residual, and a query reads it in full."""
    one, error = torch.ones(1, 1, 1, dtype=torch.float64), 1e-3
    prompt = Prompt(one, one, 2 * one)
    alphas, carried = disturbed_cg(prompt, 1, error, seed)
    bound = theory.residual_gap_bound(alphas, operator_error=error)
    gap = (prompt.y - 2 * alphas - carried).norm(dim=2)
    apart = (theory.cross(prompt) @ alphas - krr(prompt, ridge=1.0)).abs()
    told = theory.residual_prediction_bound(carried, bound, prompt, ridge=1.0)
    m.compare(gap[1], bound[1], part="one support, gap", reach=NEARLY)
    m.compare(apart[1], told[1], part="one support, prediction", reach=NEARLY)
    # ‖A⁻¹k(x)‖ ≤ ½√(k(x, x)/λ), with K and λ as they are
    weight = 0.5 * theory.cross(prompt).norm(dim=2)
    height = Linear().diagonal(prompt.phi_query)[..., 0].sqrt()
    m.compare(weight, height / 2, part="one support, ‖A⁻¹k(x)‖", reach=NEARLY)


class InexactCG(Theorem):
    name = "inexact-cg"
    group = ERRORS
    title = "Errors of the mat-vec add up, and no faster than the steps"
    states = ("inexact-cg",)
    measured = (
        "CG takes (A + E)p for Ap with a random symmetric E of norm ε: the gap, and the error of predictions by "
        "the carried residual and the bound on the gap. One support with σ = λ meets all three inequalities of part 1."
    )
    see = "Gap between the true and the carried residual, step by step, under the bound for each ε."

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompts, steps = (8, 6) if fast else (64, 12)
        task = KernelDraw(kernel=Linear(), features=12, supports=20, scale=0.5)
        prompt = task.draw(prompts, seed)
        system = EagerMachine(prompt, Linear(), 1.0).dense_system()
        m = Measurement()
        for error in (1e-2, 1e-4, 1e-6):
            alphas, carried = disturbed_cg(prompt, steps, error, seed)
            gap = (prompt.y - system @ alphas - carried).norm(dim=2)
            bound = theory.residual_gap_bound(alphas, operator_error=error)
            apart = (theory.cross(prompt) @ alphas - krr(prompt, ridge=1.0)).abs()
            told = theory.residual_prediction_bound(carried, bound, prompt, ridge=1.0)
            m.compare_steps(f"prediction, ε = {error:g}", apart, told, 1e-11)
            for t in range(1, steps + 1):
                m.at(f"ε = {error:g}", t, gap[t], bound[t], 1e-11, each=True)
        one_support(m, seed)
        settings = f"3 sizes of error, {prompts} prompts of 20 supports, {steps} steps"
        return m.outcome(settings, Axes("step", "‖true − carried residual‖"))
