"""Compiled CG in real arithmetic: reciprocals that are too small on purpose, and the ranges of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import SoftmaxAttention
from ridgeformer.experiments.theorems.base import COMPILED, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.models import trajectory
from ridgeformer.program.tables import reciprocal_table, unit_table
from ridgeformer.program.trace import RHO_FLOOR, TARGET_NORM
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    GradientDescent,
    Solver,
    krr,
)
from ridgeformer.solvers.conjugate_gradient import CGState
from ridgeformer.solvers.machine import Bounds, Interval, Precondition
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.theory import CGErrors

ERROR = 1e-6
"""By which part reciprocals are too small: far above round-off, which later steps amplify as well."""

ALLOWED = ERROR * (1 + 1e-6)
"""With room for the round-off of the reciprocals themselves, which is 1e-16."""

ROUND_OFF = 4e-15
"""Of a table and its correction in float64, which is far below the error of coarse tables."""


class TooSmall(EagerMachine):
    """The machine of a compiled CG in real arithmetic, with tables of units and reciprocals that err.

    The errors of D and P⁻¹ differ from token to token, by the given signs, [batch, 2k].
    """

    def __init__(
        self,
        prompt: Prompt,
        kernel: Kernel,
        ridge: float,
        errors: CGErrors,
        interval: Interval,
        signs: Tensor,
    ) -> None:
        super().__init__(prompt, kernel, ridge, interval=interval)
        self.errors = errors
        at_supports, at_diagonal = signs[..., None].chunk(2, dim=1)
        self.at_supports = errors.normaliser * at_supports
        self.at_diagonal = errors.diagonal * at_diagonal
        self.inverses: list[Tensor] = []
        """1/ρ̂ of every step."""
        self.rhos: list[Tensor] = []
        """ρ before the unit is renewed."""
        self.held: list[Tensor] = []
        """ρ̂, which the gate returns."""
        self.curvatures: list[Tensor] = []

    def inverse_preconditioner(self, kind: Precondition) -> Tensor | None:
        if kind == "none":
            return None
        diagonal = self.row_sums() if kind == "row-sum" else self.diagonal() + self.ridge
        return (1 - self.at_diagonal) / diagonal

    def row_sums(self) -> Tensor:
        ones = torch.ones_like(self.prompt.y[..., :1])
        sums: Tensor = 1 + super().kernel_product(ones)
        return sums

    def kernel_product(self, v: Tensor) -> Tensor:
        return (1 - self.at_supports) * super().kernel_product(v)

    def predict(self, alpha: Tensor) -> Tensor:
        return (1 - self.errors.normaliser) * super().predict(alpha)

    def reciprocal(self, x: Tensor, near: Tensor | None = None) -> Tensor:
        error = self.errors.memory if x is self.held[-1] else self.errors.length
        inverse = (1 - error) / x
        if x is self.held[-1]:
            self.inverses.append(inverse)
        else:
            self.curvatures.append(x)
        return inverse

    def unit(self, x: Tensor, bounds: Bounds, power: float = 0.5) -> Tensor:
        self.rhos.append(x)
        lo, hi = bounds()
        return unit_table(lo or RHO_FLOOR["float64"], hi, power)(x)

    def assume(self, x: Tensor, bounds: Bounds, why: str) -> Tensor:
        if "near" in why:  # ρ̂, of which the reciprocal and the gate follow
            self.held.append(x)
        return x

    def preconditioner_range(self, kind: Precondition) -> Interval:
        if kind == "none":
            return 1.0, 1.0
        inverse = self.inverse_preconditioner(kind)
        assert inverse is not None
        return float(1 / inverse.max()), float(1 / inverse.min())

    def target_norm(self) -> Interval:
        return TARGET_NORM["float64"]

    def bound(self, v: Tensor, norm: Callable[[], float], why: str) -> Tensor:
        return v

    @property
    def coefficients(self) -> tuple[Tensor, Tensor]:
        """γ_t and β_t, [steps, batch]."""
        count = len(self.curvatures)
        gamma = [self.held[t] * (1 - self.errors.length) / self.curvatures[t] for t in range(count)]
        beta = [self.rhos[t] * self.inverses[t - 1] for t in range(1, count)]
        beta = [torch.zeros_like(gamma[0]), *beta]
        return torch.stack(gamma)[..., 0, 0], torch.stack(beta)[..., 0, 0]


@dataclass(frozen=True)
class Run:
    """What the recurrence left on such a machine."""

    machine: TooSmall
    states: list[CGState]
    predictions: Tensor
    """[steps + 1, batch, q]"""


@dataclass(frozen=True)
class Setting:
    label: str
    prompt: Prompt
    kernel: Kernel
    ridge: float
    precondition: Precondition
    errors: CGErrors

    @property
    def system(self) -> dict[str, Any]:
        return {
            "ridge": self.ridge,
            "kernel": self.kernel,
            "precondition": self.precondition,
        }

    @property
    def eigenvalues(self) -> Tensor:
        return theory.system_eigenvalues(self.prompt, **self.system)

    def run(self, errors: CGErrors, steps: int, signs: Tensor | None = None) -> Run:
        """Errors of D and P⁻¹ are positive at all tokens unless their signs are given."""
        values = self.eigenvalues
        interval = float(values.min()), float(values.max())
        if signs is None:
            signs = torch.ones(len(values), 2 * self.prompt.supports, dtype=torch.float64)
        machine = TooSmall(self.prompt, self.kernel, self.ridge, errors, interval, signs)
        solver = ConjugateGradient(self.precondition)
        states = [solver.init(machine)]
        for t in range(1, steps + 1):
            states.append(solver.step(machine, states[-1], t))
        found = torch.stack([machine.predict(s.alpha) for s in states])[..., 0]
        return Run(machine, states, found)

    def path(self, run: Run) -> theory.CGPath:
        return theory.cg_path(self.prompt, *run.machine.coefficients, **self.system)

    def worst_signs(self, steps: int) -> list[Tensor]:
        """For every step the signs of the tokens' errors that move its first query furthest."""
        clean = self.run(CGErrors(), steps)
        path, found = self.path(clean), []
        for t in range(1, steps + 1):
            response = theory.token_responses(path, self.prompt, t, **self.system)[:, 0]
            # The query's own D is too small, and moves its prediction towards 0.
            found.append(-response.sign() * clean.predictions[t, :, :1].sign())
        return found

    def bound(self, run: Run, errors: CGErrors) -> Tensor:
        return theory.compiled_cg_bound(
            self.path(run), self.prompt, run.predictions, errors=errors, **self.system
        )


def settings(prompts: int, seed: int) -> Iterator[Setting]:
    """Each kind of reciprocal alone, and all of them together, in the constructions that have them."""
    length, memory, normaliser, diagonal = (
        CGErrors(**{name: ERROR}) for name in ("length", "memory", "normaliser", "diagonal")
    )
    both, all_three = CGErrors(ERROR, ERROR), CGErrors(ERROR, ERROR, ERROR)
    spectrum = PrescribedSpectrum(features=8, supports=12, condition=20).draw(prompts, seed)
    for said, errors in (("1/pᵀAp", length), ("1/ρ", memory), ("both", both)):
        yield Setting(f"linear, {said}", spectrum, Linear(), 1.0, "none", errors)
    yield Setting("linear, Jacobi", spectrum, Linear(), 1.0, "jacobi", diagonal)
    for kernel, kind in ((Gaussian(0.7), "none"), (Exponential(2.0), "row-sum")):
        task = KernelDraw(kernel=kernel, features=2, supports=12, scale=0.5)
        prompt = task.draw(prompts, seed)
        for said, errors in (("D", normaliser), ("all", all_three)):
            yield Setting(f"{kernel.name}, {said}", prompt, kernel, 1.0, kind, errors)  # type: ignore[arg-type]


class CompiledCG(Theorem):
    name = "compiled-cg"
    group = COMPILED
    title = "Compiled CG is CG: reciprocals that err, units, counts and the gate"
    states = ("compiled-cg",)
    measured = (
        "The recurrence runs on a machine with the compiler's tables of units, whose reciprocals are too small by "
        "1e-6, each kind alone and all together; those of single tokens have the signs that do most harm. The difference from exact CG is compared with the bound along the "
        "path and, but for Jacobi's preconditioner, with that in advance; the distance from f* with the residual that is "
        "carried and, with linear attention and P = I, with the descent that is known before; ρ̂ and pᵀAp with the ranges of the tables. "
        "The gate never acts. A model in float32 is compared with f*. That the tables themselves are as accurate as is said is measured on a grid."
    )
    see = "Difference from exact CG after each step, by the reciprocals that err, each under its bound."
    attained = 0.4

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts, steps = Measurement(), 8 if fast else 64, 5
        for setting in settings(prompts, seed):
            self.compare(m, setting, steps)
        for reach in (1e1, 1e3, 1e6, 1e12):
            misses = table_misses(reach)
            m.compare(misses.clamp(min=0), theory.table_error(1.0, reach, 3.0), ROUND_OFF)
            m.compare((-misses).clamp(min=0), ROUND_OFF)
        for solver in (ConjugateGradient(), GradientDescent(), Chebyshev("row-sum")):
            single_precision(m, solver, prompts, seed)
        said = (
            f"8 kinds of reciprocals and kernels, {prompts} prompts of 12 supports, {steps} steps"
        )
        return m.outcome(said, Axes("step", "|f̂_t − f_t|"))

    def compare(self, m: Measurement, setting: Setting, steps: int) -> None:
        values, errors = setting.eigenvalues, setting.errors
        exact = setting.run(CGErrors(), steps).predictions
        allowed = CGErrors(*(e * (1 + 1e-6) for e in vars(errors).values()))
        by_token = errors.normaliser or errors.diagonal
        for signs in setting.worst_signs(steps) if by_token else [None]:
            run = setting.run(errors, steps, signs)
            apart = (run.predictions - exact).abs()
            # Errors of several kinds do not all have the worst sign at once.
            reach = 0.25 if sum(e > 0 for e in vars(errors).values()) > 1 else None
            m.by_step(setting.label, apart, setting.bound(run, allowed), reach=reach)
            if errors.normaliser:
                ahead = theory.softmax_cg_growth_bound(
                    setting.prompt, steps=steps, errors=allowed, **setting.system
                )
                m.compare(apart, ahead, 1e-15)
            if setting.precondition == "none" and not by_token:
                self.in_advance(m, setting, run, allowed, apart)
            self.residuals(m, setting, run)
            for rho in run.machine.held:
                m.compare(rho, 1.48)
                m.compare(0.65, rho)
            for curvature in run.machine.curvatures:
                m.compare(curvature, 2 * values[:, -1:, None])
                m.compare(0.6 * values[:, :1, None], curvature)

    def in_advance(
        self, m: Measurement, setting: Setting, run: Run, errors: CGErrors, apart: Tensor
    ) -> None:
        """With linear attention and P = I: what is known before the path is."""
        prompt, ridge, kernel = setting.prompt, setting.ridge, setting.kernel
        system: dict[str, Any] = {"ridge": ridge, "kernel": kernel}
        known = {"steps": len(apart) - 1, "errors": errors, **system}
        m.compare(apart, theory.compiled_cg_growth_bound(prompt, **known), 1e-15)
        error = (run.predictions - krr(prompt, **system)[..., 0]).abs()
        m.compare(error, theory.compiled_cg_descent_bound(prompt, **known), 1e-12)

    def residuals(self, m: Measurement, setting: Setting, run: Run) -> None:
        """What the model carries as its residual says how far it is from f*."""
        prompt, errors, states, found = setting.prompt, setting.errors, run.states, run.predictions
        carried = torch.stack([s.scale * s.r for s in states])
        lost = errors.memory / (1 - errors.memory) * carried.norm(dim=2).cumsum(0)[..., 0]
        alphas = torch.stack([s.alpha for s in states])
        gram = theory.gram(prompt, setting.kernel)
        gap = lost + errors.normaliser * (gram @ alphas).norm(dim=2)[..., 0]
        bound = theory.residual_prediction_bound(
            carried, gap[..., None], prompt, ridge=setting.ridge, kernel=setting.kernel
        )[..., 0]
        read = errors.normaliser / (1 - errors.normaliser) * found.abs()
        error = (found - krr(prompt, ridge=setting.ridge, kernel=setting.kernel)[..., 0]).abs()
        m.compare(error, bound + read, 1e-12)


def single_precision(m: Measurement, solver: Solver, prompts: int, seed: int) -> None:
    """A compiled model in float32, of which the residual of what it holds says how good it is."""
    kernel, supports, norm = Gaussian(0.7), 12, 1.5
    task = KernelDraw(kernel=kernel, features=2, supports=supports, scale=0.5)
    prompt = task.draw(prompts, seed).inside(norm).to(torch.float32)
    to = SoftmaxAttention(norm, supports)
    model = compiled(solver, prompt, to, steps=6, kernel=kernel, dtype="float32")
    run = trajectory(model, prompt, states=True)
    alphas, given = run.states["alpha"].double(), prompt.to(torch.float64)
    system = EagerMachine(given, kernel, 1.0).dense_system()
    residual = given.y - system @ alphas
    none = torch.zeros_like(residual.norm(dim=2))
    bound = theory.residual_prediction_bound(residual, none, given, ridge=1.0, kernel=kernel)
    weighted = theory.cross(given, kernel) @ alphas.abs()
    read = theory.normaliser_round_off(
        weighted,
        tokens=supports + 2,
        roundings=2 * 2
        + 7,  # p products, a norm that is a sum of p squares, its scale, and three more terms
        logit=2 * 1.5 * norm**2 / kernel.lengthscale**2,  # of a support and of the sink
        unit=theory.UNIT["float32"],
    )
    bound = bound + read
    error = (run.predictions.double() - krr(given, ridge=1.0, kernel=kernel)).abs()
    m.by_step(f"gaussian, {solver.name}, float32, from f*", error, bound, reach=0.15)


def table_misses(reach: float) -> Tensor:
    """By which parts reciprocals in [1, reach] are too small, if the knots of tables have ratio 3."""
    x = torch.logspace(0, torch.log10(torch.tensor(reach)).item(), 2001, dtype=torch.float64)
    return 1 - x * reciprocal_table(1.0, reach, 3.0)(x)
