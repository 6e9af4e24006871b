"""General theorems: each holds for every solver of its kind, and is measured on any, the user's own too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import torch

from ridgeformer import theory
from ridgeformer.compiler import Interpolated, LinearAttention
from ridgeformer.experiments.theorems.base import (
    COMPILED,
    ERRORS,
    RATES,
    SIZES,
    Axes,
    Measurement,
    Outcome,
    Theorem,
)
from ridgeformer.experiments.theorems.cases import Case, compiled_cases, numeric_cases
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.experiments.theorems.kinds import expected, held, kinds
from ridgeformer.experiments.theorems.sizes import parameters_of, same
from ridgeformer.kernels import Kernel, Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import EagerMachine, Solver, krr, solve
from ridgeformer.tasks import Prompt


class GeneralTheorem(Theorem):
    """A theorem about every solver, kernel and target of a kind.

    `measure` runs it on whatever is registered, `measure_on` on one case.
    """

    attained = 0.0

    @abstractmethod
    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome: ...

    def inapplicable(self, case: Case) -> str | None:
        """The reason why the theorem says nothing about this case, or None if it does."""
        return None if case.to is not None else "It is about compiled models: give `to`."

    def cases(self, fast: bool) -> Iterable[Case]:
        """What `measure` runs over."""
        return compiled_cases(fast)

    def measure(self, seed: int, fast: bool) -> Outcome:
        measured = [
            (case, self.measure_on(case, seed, fast))
            for case in self.cases(fast)
            if self.inapplicable(case) is None
        ]
        m = Measurement()
        for case, outcome in measured:
            m.count(outcome.ratios)
            for part in outcome.parts:
                m.judge(part.name, part.reached, part.asked)
            for line in outcome.lines:
                name, of = (
                    text.replace(case.label, case.solver.name) for text in (line.name, line.of)
                )
                for at, y in enumerate(line.y):
                    m.draw(name, line.x[at], y)
                if line.bound:
                    m.bounds[name] = of
        settings = f"{len(measured)} cases of registered solvers, kernels and targets"
        return m.outcome(settings, measured[0][1].axes)


def allowed_error(case: Case, predictions: torch.Tensor) -> float:
    """What the certificate lets the compiled model differ from its solver by, absolute."""
    certificate = case.model().certificate
    if certificate.absolute_error is not None:
        return certificate.absolute_error
    assert certificate.relative_error is not None, "a certificate promises one of the two"
    return certificate.relative_error * float(predictions.abs().max())


LONG = 150
"""Supports of a long prompt: linear attention sums over more than two of its chunks."""
LONGEST = 2200
"""Supports of the longest: more than one of the blocks in which a layer takes tokens."""


class CompiledIsSolver(GeneralTheorem):
    name = "compiled-is-solver"
    group = COMPILED
    title = "A compiled transformer is its solver, at every step"
    states = ("compiled-model",)
    measured = (
        "Inside its domain the predictions that a compiled model holds after each step differ from the "
        "solver's by at most what its certificate promises: 1e-9 of the largest prediction where products "
        "are exact, 1e-3 in float32, the certified tolerance where products are interpolated. Every kind of "
        "compiled model is among the cases, one that solves every prefix at each of its prefixes, and linear "
        "attention also on prompts that are longer than the chunks in which it sums."
    )
    see = "The largest difference after each step, by solver; interpolated products stay far below their certificate."

    def cases(self, fast: bool) -> Iterable[Case]:
        return [*kinds().values(), *compiled_cases(fast)]

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        m, model = Measurement(), case.model()
        for supports, prompts in supports_of(case, fast).items():
            prompt = case.prompts(prompts, seed, supports)
            right = expected(model, prompt, case.taken)
            difference = (held(model, prompt, case.taken) - right).abs()
            m.compare(difference, allowed_error(case, right))
            m.draw_steps(case.label, difference)
        return m.outcome(case.label, Axes("step", "|model − solver|"))


def supports_of(case: Case, fast: bool) -> dict[int, int]:
    """Numbers of supports, each with how many prompts of them are tried."""
    some = dict.fromkeys((1, 12), 4 if fast else 32)
    # Other kernels have eigenvalues that grow with the number of supports.
    if isinstance(case.to, LinearAttention) and isinstance(case.kernel, Linear) and case.called:
        return some | {LONG: 1} | ({LONGEST: 1} if case.called in ONE_OF_EACH else {})
    return some


ONE_OF_EACH = ("linear attention", "causal")
"""Kinds that sum over tokens in different ways, which are tried on the longest prompts."""


class PolynomialRate(GeneralTheorem):
    name = "polynomial-rate"
    group = RATES
    title = "Fixed coefficients: the error is that of the method's polynomial"
    states = ("prediction",)
    measured = (
        "The polynomials come from running each solver on single eigenvalues. The errors are those of its "
        "numerics, or of the compiled model, whose certificate is added to the bound. A prompt of one support "
        "meets the bound."
    )
    see = "Errors of predictions after each step, under the bound of each solver's own polynomials."
    attained = 0.25

    def inapplicable(self, case: Case) -> str | None:
        return has_polynomials(case)

    def cases(self, fast: bool) -> Iterable[Case]:
        return [*numeric_cases(steps=4), *compiled_cases(fast)]

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        m, interval = Measurement(), case.interval()
        for supports in (1, 12):
            prompt = case.prompts(4 if fast else 32, seed, supports)
            exact = krr(prompt, ridge=case.ridge, kernel=case.kernel)
            run = solve(case.solver, prompt, steps=case.steps, interval=interval, **case.system)
            allowed = 1e-12 * float(exact.abs().max())
            if case.to is not None:
                allowed += allowed_error(case, run.predictions)
                run = trajectory(case.model(), prompt)
            bound = theory.polynomial_prediction_bound(
                case.solver, prompt, steps=case.steps, interval=interval, **case.system
            )
            error = (run.predictions - exact).abs()
            m.compare(error[1:], bound[1:] + allowed)
            # Steps at which the allowance is most of the bound say nothing of it. With some kernels a single
            # mode lies near a zero of the polynomial: each step of a solver is judged over all kernels.
            most, floor = bound + allowed, 100 * allowed
            # A preconditioner leaves one support nothing to do, and its steps are judged by random prompts.
            reach = NEARLY if case.solver.precondition == "none" else 0.15
            m.compare_steps(solver_label(case.solver), error, most, floor, reach=reach)
            m.by_step(case.label, error, most, floor, whole=True, reach=0.1)
        return m.outcome(case.label, Axes("step", "|f_t − f*|"))


def solver_label(solver: Solver) -> str:
    none = solver.precondition == "none"
    return solver.name if none else f"{solver.name}, {solver.precondition}"


def has_polynomials(case: Case) -> str | None:
    """Why the solver is not described by polynomials, or None if it is."""
    if case.solver.smooths:
        return "It divides by a sum of kernel values and solves no system."
    try:
        theory.products_taken(case.solver, steps=2, tuned=(1.0, 2.0))
    except theory.NotFixed as reason:
        return str(reason)
    return None


def responds_to_errors(case: Case) -> str | None:
    """Why iterates are not linear in the errors of products, or None if they are."""
    try:
        theory.sensitivity(case.solver, steps=1, tuned=(1.0, 2.0), spectrum=(1.0, 2.0))
    except theory.NotFixed as reason:
        return str(reason)
    return None


class InexactFixed(GeneralTheorem):
    name = "inexact-fixed-coefficients"
    group = ERRORS
    title = "Errors of products reach a prediction by the recurrence's own responses"
    states = ("inexact-fixed",)
    measured = (
        "Every product of the solver's numerics with the kernel matrix is off by a vector of norm e along "
        "the largest mode. Every support is a query too; a prompt of one support comes nearest to the bound."
    )
    see = "Error of a prediction against the number of inexact steps: it comes to rest, as the bound does."
    attained = 0.2

    def inapplicable(self, case: Case) -> str | None:
        return has_polynomials(case) or responds_to_errors(case)

    def cases(self, fast: bool) -> Iterable[Case]:
        return numeric_cases(steps=4)

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        size, depths = 1e-3, (1, 2, 4, 8, 16) if fast else (1, 2, 4, 8, 16, 32, 64)
        m = Measurement()
        prompts = [case.prompts(4 if fast else 32, seed, supports) for supports in (1, 12)]
        for steps in depths:
            for prompt in prompts:
                machine = InexactProducts(prompt, case.kernel, case.ridge, size)
                state = case.solver.init(machine)
                for t in range(1, steps + 1):
                    state = case.solver.step(machine, state, t)
                clean = solve(case.solver, prompt, steps=steps, **case.system).final
                apart = (machine.predict(state.alpha) - clean)[..., 0].abs()
                bound = theory.perturbed_prediction_bound(
                    case.solver, prompt, steps=steps, residual_error=size, **case.system
                )
                m.at(case.label, steps, apart, bound, 1e-12, each=True)
        return m.outcome(case.label, Axes("steps", "|f̂_T − f_T|", log_x=True))


class InexactProducts(EagerMachine):
    """A machine whose products with K are off by a fixed vector along the largest mode of A."""

    def __init__(self, prompt: Prompt, kernel: Kernel, ridge: float, size: float) -> None:
        super().__init__(prompt, kernel, ridge)
        self.error = size * torch.linalg.eigh(self.dense_system()).eigenvectors[..., -1:]
        ones = torch.ones_like(prompt.y[..., :1])
        self.exact_sums: torch.Tensor = 1 + super().kernel_product(ones)

    def kernel_product(self, v: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = super().kernel_product(v) + self.error
        return product

    def row_sums(self) -> torch.Tensor:
        return self.exact_sums  # the preconditioner is no product of the recurrence


class SizeLaw(GeneralTheorem):
    name = "size-law"
    group = SIZES
    title = "Every compiled model grows by the same layers a step, and never wider"
    states = ("size-law",)
    measured = (
        "Layers, d_model, heads, d_head, d_mlp and parameters are counted on models of 8, 9, 10 and 12 steps. "
        "Interpolated products are left out: they are as fine as the promised error asks, which depends on "
        "the number of steps."
    )
    see = "Layers of compiled models against the number of steps: straight lines."
    equality = True

    def inapplicable(self, case: Case) -> str | None:
        if case.to is not None and isinstance(case.to.products, Interpolated):
            return "Interpolated products are as fine as the promised error asks, which depends on the steps."
        return super().inapplicable(case)

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        steps = (8, 9, 10) if fast else (8, 9, 10, 12)
        models = [case.model(steps=t, promised=False) for t in steps]
        configs = [model.transformer.config for model in models]
        first, second = (config.n_layers for config in configs[:2])
        m = Measurement()
        for t, model, config in zip(steps, models, configs, strict=True):
            m.count(same(config.n_layers, first + (second - first) * (t - steps[0])))
            for name in ("d_model", "n_heads", "d_head", "d_mlp"):
                m.count(same(getattr(config, name), getattr(configs[0], name)))
            m.count(same(*parameters_of(model, case.features, 1, config.mlp == "reglu")))
            m.draw(case.label, t, config.n_layers)
        return m.outcome(case.label, Axes("steps T", "layers, most of any model", log_y=False))
