"""General theorems: each holds for every solver of its kind, and is measured on any, the user's own too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import Interpolated
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.experiments.theorems.cases import Case, compiled_cases, numeric_cases
from ridgeformer.experiments.theorems.sizes import parameters_of, same
from ridgeformer.kernels import Kernel
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import EagerMachine, krr, solve
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
        worst: dict[str, Line] = {}
        for case, outcome in measured:
            for line in outcome.lines:
                name = line.name.replace(case.label, case.solver.name)
                known = worst.get(name, line)
                y = np.maximum(known.y, line.y).tolist()
                worst[name] = Line(name, line.x, y, line.bound)
        settings = f"{len(measured)} cases of registered solvers, kernels and targets"
        collected = np.concatenate([outcome.ratios for _, outcome in measured])
        return Outcome(settings, collected, list(worst.values()), measured[0][1].axes)


def largest(values: torch.Tensor) -> list[float]:
    """The largest entry of each step, above what a logarithmic axis can show."""
    worst = values.reshape(len(values), -1).amax(1).clamp(min=1e-17)
    return [float(value) for value in worst]


def allowed_error(case: Case, predictions: torch.Tensor) -> float:
    """What the certificate lets the compiled model differ from its solver by, absolute."""
    certificate = case.model().certificate
    if certificate.absolute_error is not None:
        return certificate.absolute_error
    assert certificate.relative_error is not None, "a certificate promises one of the two"
    return certificate.relative_error * float(predictions.abs().max())


class CompiledIsSolver(GeneralTheorem):
    name = "compiled-is-solver"
    title = "A compiled transformer is its solver, at every step"
    states = ("compiled-model",)
    measured = (
        "Inside its domain the predictions that a compiled model holds after each step differ from the "
        "solver's by at most what its certificate promises: 1e-9 of the largest prediction where products "
        "are exact, the certified tolerance where they are interpolated."
    )
    see = "The largest difference after each step, by solver; interpolated products stay far below their certificate."

    def inapplicable(self, case: Case) -> str | None:
        if (
            case.to is not None
            and case.model().certificate.space != "dual"
            and has_polynomials(case)
        ):
            return "In feature space a method with inner products has iterates of its own."
        return super().inapplicable(case)

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        model, collected, apart = case.model(), [], []
        for supports in (1, 12):
            prompt = case.prompts(4 if fast else 32, seed, supports)
            expected = reference(model, prompt).predictions
            difference = (trajectory(model, prompt).predictions - expected).abs()
            promise = allowed_error(case, expected)
            collected.append(ratios(difference.numpy(), np.array(promise), 0.0))
            apart.append(largest(difference))
        worst = np.max(apart, axis=0).tolist()
        lines = [Line(case.label, list(range(len(worst))), worst)]
        axes = Axes("step", "|model − solver|")
        return Outcome(case.label, np.concatenate(collected), lines, axes)


class PolynomialRate(GeneralTheorem):
    name = "polynomial-rate"
    title = "Fixed coefficients: the error is that of the method's polynomial"
    states = ("prediction",)
    measured = (
        "The polynomials come from running each solver on single eigenvalues. The errors are those of its "
        "numerics, or of the compiled model, whose certificate is added to the bound. A prompt of one support "
        "meets the bound."
    )
    see = "Errors of predictions after each step, under the bound of each solver's own polynomials."
    attained = 0.1

    def inapplicable(self, case: Case) -> str | None:
        return has_polynomials(case)

    def cases(self, fast: bool) -> Iterable[Case]:
        return [*numeric_cases(steps=4), *compiled_cases(fast)]

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        collected, errors, bounds = [], [], []
        for supports in (1, 12):
            prompt = case.prompts(4 if fast else 32, seed, supports)
            exact = krr(prompt, ridge=case.ridge, kernel=case.kernel)
            interval = case.interval()
            run = solve(
                case.solver,
                prompt,
                steps=case.steps,
                interval=interval,
                ridge=case.ridge,
                kernel=case.kernel,
            )
            allowed = 1e-12 * float(exact.abs().max())
            if case.to is not None:
                allowed += allowed_error(case, run.predictions)
                run = trajectory(case.model(), prompt)
            bound = theory.polynomial_prediction_bound(
                case.solver,
                prompt,
                steps=case.steps,
                interval=interval,
                ridge=case.ridge,
                kernel=case.kernel,
            )
            error = (run.predictions - exact).abs()
            collected.append(ratios(error[1:].numpy(), bound[1:].numpy() + allowed, 0.0))
            errors.append(largest(error))
            bounds.append(largest(bound))
        steps = list(range(case.steps + 1))
        lines = [
            Line(case.label, steps, np.max(errors, axis=0).tolist()),
            Line(f"{case.label}, bound", steps, np.max(bounds, axis=0).tolist(), bound=True),
        ]
        return Outcome(case.label, np.concatenate(collected), lines, Axes("step", "|f_t − f*|"))


def has_polynomials(case: Case) -> str | None:
    """Why the solver is not described by polynomials, or None if it is."""
    if case.solver.smooths:
        return "It divides by a sum of kernel values and solves no system."
    try:
        theory.products_taken(case.solver, steps=2, tuned=(1.0, 2.0))
    except theory.NotFixed as reason:
        return str(reason)
    return None


class InexactFixed(GeneralTheorem):
    name = "inexact-fixed-coefficients"
    title = "Errors of products reach a prediction by the recurrence's own responses"
    states = ("inexact-fixed",)
    measured = (
        "Every product of the solver's numerics with the kernel matrix is off by a vector of norm e along "
        "the largest mode. Every support is a query too; a prompt of one support comes nearest to the bound."
    )
    see = "Error of a prediction against the number of inexact steps: it comes to rest, as the bound does."
    attained = 0.1

    def inapplicable(self, case: Case) -> str | None:
        return has_polynomials(case)

    def cases(self, fast: bool) -> Iterable[Case]:
        return numeric_cases(steps=4)

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        size, depths = 1e-3, (1, 2, 4, 8, 16) if fast else (1, 2, 4, 8, 16, 32, 64)
        collected, errors, bounds = [], [], []
        prompts = [case.prompts(4 if fast else 32, seed, supports) for supports in (1, 12)]
        for steps in depths:
            worst, most = [], []
            for prompt in prompts:
                machine = InexactProducts(prompt, case.kernel, case.ridge, size)
                state = case.solver.init(machine)
                for t in range(1, steps + 1):
                    state = case.solver.step(machine, state, t)
                clean = solve(
                    case.solver, prompt, steps=steps, ridge=case.ridge, kernel=case.kernel
                ).final
                apart = (machine.predict(state.alpha) - clean)[..., 0].abs()
                bound = theory.perturbed_prediction_bound(
                    case.solver,
                    prompt,
                    steps=steps,
                    residual_error=size,
                    ridge=case.ridge,
                    kernel=case.kernel,
                )
                collected.append(ratios(apart.numpy(), bound.numpy(), 1e-12))
                worst.append(float(apart.max()))
                most.append(float(bound.max()))
            errors.append(max(worst))
            bounds.append(max(most))
        lines = [
            Line(case.label, depths, errors),
            Line(f"{case.label}, bound", depths, bounds, True),
        ]
        axes = Axes("steps", "|f̂_T − f_T|", log_x=True)
        return Outcome(case.label, np.concatenate(collected), lines, axes)


class InexactProducts(EagerMachine):
    """A machine whose products with K are off by a fixed vector along the largest mode of A."""

    def __init__(self, prompt: Prompt, kernel: Kernel, ridge: float, size: float) -> None:
        super().__init__(prompt, kernel, ridge)
        self.error = size * torch.linalg.eigh(self.dense_system()).eigenvectors[..., -1:]
        self.exact_sums: torch.Tensor = 1 + super().kernel_product(
            torch.ones_like(prompt.y[..., :1])
        )

    def kernel_product(self, v: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = super().kernel_product(v) + self.error
        return product

    def row_sums(self) -> torch.Tensor:
        return self.exact_sums  # the preconditioner is no product of the recurrence


class SizeLaw(GeneralTheorem):
    name = "size-law"
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
        models = [case.model(steps=t) for t in steps]
        configs = [model.transformer.config for model in models]
        first, second = (config.n_layers for config in configs[:2])
        counted = []
        for t, model, config in zip(steps, models, configs, strict=True):
            counted.append(same(config.n_layers, first + (second - first) * (t - steps[0])))
            for name in ("d_model", "n_heads", "d_head", "d_mlp"):
                counted.append(same(getattr(config, name), getattr(configs[0], name)))
            counted.append(same(*parameters_of(model, case.features, 1, config.mlp == "reglu")))
        lines = [Line(case.label, steps, [float(config.n_layers) for config in configs])]
        axes = Axes("steps T", "layers, most of any model", log_y=False)
        return Outcome(case.label, np.array(counted), lines, axes)
