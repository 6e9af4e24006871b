"""Width of the Gaussian construction: squares, relative errors, digits, and depth and width together."""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import Interpolated, SoftmaxAttention
from ridgeformer.compiler.backends.softmax_attention import DigitBackend, InterpolatedBackend
from ridgeformer.compiler.compile import backend_for
from ridgeformer.compiler.job import Job
from ridgeformer.experiments.theorems.base import SIZES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import ball, compiled, prediction_errors
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.kernels import Gaussian
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import Richardson, krr
from ridgeformer.tasks import Prompt

KERNEL, RIDGE, TARGET, ERROR = Gaussian(0.5), 1.0, 4.0, 1e-2
SOLVER = Richardson(precondition="row-sum")
WITHIN = 0.1
"""How far a measured exponent may be from the proved one."""


def planned(supports: int, steps: int, error: float, *, digits: bool) -> InterpolatedBackend:
    """What the compiler would do over the whole domain |x| ≤ 1, |y| ≤ TARGET, k ≤ `supports`."""
    to = SoftmaxAttention(1.0, supports, Interpolated(TARGET, tolerance=error, digits=digits))
    found = backend_for(Job(SOLVER, KERNEL, 2, 1, steps, RIDGE, "float64"), to)
    assert isinstance(found, InterpolatedBackend)
    return found


def exponent(counts: list[int], sizes: list[float]) -> float:
    """The slope of log(size) against log(count)."""
    return float(np.polyfit(np.log(counts), np.log(sizes), 1)[0])


class WidthLaw(Theorem):
    name = "width-law"
    group = SIZES
    title = "Squares take a width proportional to k, digits one proportional to log k"
    states = ("interpolated-products", "digit-products")
    measured = (
        "Intervals n, digits M and neurons that the compiler certifies over a whole domain, with the depth "
        "that Richardson iteration asks for, between both bounds; and the exponent of the neurons in k, within "
        f"{WITHIN:g} of 1 for squares and of the formula's for digits."
    )
    see = "Neurons against the number of supports: a line of slope 1 for squares, and a logarithm for digits."

    def measure(self, seed: int, fast: bool) -> Outcome:
        counts = [8, 16, 32, 64, 128] if fast else [8, 16, 32, 64, 128, 256]
        m = Measurement()
        widths: dict[str, list[float]] = {"squares": [], "digits": []}
        formula: list[float] = []
        for k in counts:
            law = theory.RowSumLaw(k, RIDGE, TARGET)
            steps = law.steps(ERROR)
            squares, digits = (planned(k, steps, ERROR, digits=d) for d in (False, True))
            assert isinstance(digits, DigitBackend)
            spent = squares.budget.spent(squares.grid), digits.digit_budget.spent(digits.digits)
            bounds = (
                law.intervals(steps=steps, tolerance=ERROR, spent=spent[0]),
                law.digits(steps=steps, tolerance=ERROR, spent=spent[1]),
            )
            sizes = squares.grid.intervals, digits.digits
            for (low, high), size in zip(bounds, sizes, strict=True):
                m.count(low / size, size / high)
            neurons = squares.neurons, digits.neurons
            above = 2 * bounds[0][1] + 6, 4 * bounds[1][1] + 8
            for name, found, bound in zip(widths, neurons, above, strict=True):
                widths[name].append(found)
                m.at(name, k, float(found), bound)
            formula.append(above[1])
        m.compare(abs(exponent(counts, widths["squares"]) - 1), WITHIN)
        apart = exponent(counts, widths["digits"]) - exponent(counts, formula)
        m.compare(abs(apart), WITHIN)
        settings = f"k = {counts[0]} … {counts[-1]}, ε = {ERROR:g}, λ = {RIDGE:g}, |x| ≤ 1, |y| ≤ {TARGET:g}"
        return m.outcome(settings, Axes("supports k", "neurons per layer", log_x=True))


def slope(supports: int, query: float = 0.5) -> Prompt:
    """Half of the supports at each of ±r, so near that ridge hardly resolves a slope between them."""
    side = torch.ones(1, supports, 1, dtype=torch.float64)
    side[:, ::2] = -1
    r = KERNEL.lengthscale * sqrt(RIDGE / supports)
    zero = torch.zeros_like(side)
    at = torch.tensor([[[query, 0.0]]], dtype=torch.float64)
    return Prompt(torch.cat([r * side, zero], -1), side, at)


def with_outlier(prompt: Prompt) -> Prompt:
    """The same with one more support at the query, with the largest target."""
    phi = torch.cat([prompt.phi, prompt.phi_query], 1)
    return Prompt(phi, torch.cat([prompt.y, prompt.y.amax(1, keepdim=True)], 1), prompt.phi_query)


class RelativeProducts(Theorem):
    name = "relative-products"
    group = SIZES
    title = "What errors relative to 1/D buy: √k over a domain, and more on most prompts"
    states = ("relative-products",)
    measured = (
        "Σ 1/(K1)_i of supports in a disk; Richardson iteration with errors c/D_i of the worst signs; and the "
        "slope, whose ‖A⁻¹k‖₁, ‖DA⁻¹k‖₁ and y − λα are compared with their lower bounds."
    )
    see = "The factor from relative errors to a prediction: on random prompts it hardly grows, on a slope as √k."

    def measure(self, seed: int, fast: bool) -> Outcome:
        counts = [8, 16, 32, 64] if fast else [8, 16, 32, 64, 128, 256]
        generator = torch.Generator().manual_seed(seed)
        m, mass = Measurement(), theory.kernel_mass_bound(1 / KERNEL.lengthscale, 2)
        for k in counts:
            phi, query = ball(generator, 1.0, 8, k, 2), ball(generator, 1.0, 8, 4, 2)
            prompt = Prompt(phi, torch.zeros(8, k, 1, dtype=torch.float64), query)
            m.compare((1 / (theory.row_sums(prompt, KERNEL) - 1)).sum(-1), mass, part="mass")
            for steps in (1, 2, 4, 8, 24):
                self.propagate(m, prompt, steps)
            m.draw("random prompts", k, dual_weights(prompt).abs().sum(1))
            self.hard(m, k)
        settings = f"k = {counts[0]} … {counts[-1]}, 8 prompts each, λ = {RIDGE:g}, ℓ = {KERNEL.lengthscale:g}"
        return m.outcome(settings, Axes("supports k", "‖A⁻¹k(x)‖₁", log_x=True))

    def hard(self, m: Measurement, k: int) -> None:
        prompt = slope(k)
        weights, bound = dual_weights(prompt), theory.slope_bound(k, RIDGE, 1.0)
        sums = theory.row_sums(prompt, KERNEL)[..., None]
        m.count(bound / weights.abs().sum(1), part="‖A⁻¹k‖₁ of a slope", reach=0.95)
        relative = (k + 1 - RIDGE) * bound / (sums * weights).abs().sum(1)
        m.count(relative, part="‖DA⁻¹k‖₁ of a slope", reach=0.95)
        exact = krr(prompt, ridge=RIDGE, kernel=KERNEL)
        m.count(bound / exact, part="f* of a slope", reach=0.95)
        m.draw("a slope", k, weights.abs().sum(1))
        m.draw_bound("a slope", k, bound, "at least")
        outlier = with_outlier(prompt)
        a = theory.gram(outlier, KERNEL) + RIDGE * torch.eye(k + 1, dtype=torch.float64)
        fitted = (outlier.y - RIDGE * torch.linalg.solve(a, outlier.y))[0, -1, 0]
        m.count(RIDGE / (1 + RIDGE) * bound / float(fitted), part="a fitted value", reach=0.4)
        self.whole_domain(m, prompt)

    def whole_domain(self, m: Measurement, prompt: Prompt) -> None:
        """All errors of a converged iteration, at least ‖A⁻¹k‖₁ and at most √S·Σ."""
        k, law = prompt.supports, theory.RowSumLaw(prompt.supports, RIDGE)
        steps, (a, b) = law.steps(1e-4), law.interval
        total = theory.relative_responses(prompt, KERNEL, ridge=RIDGE, step=law.step, steps=steps)
        below = dual_weights(prompt).abs().sum(1) * (1 - 1e-4)  # which the last steps would add
        m.count(below / total, part="sum of all steps", reach=0.5)
        top = max(1 + (RIDGE - 1) / sums for sums in (2, k + 1))
        most = theory.sensitivity(SOLVER, steps=steps, tuned=(a, b), spectrum=(a, top)).prediction
        mass = theory.kernel_mass_bound(1 / KERNEL.lengthscale, 2)
        # The mass of two places is a third of the bound on it, and no prompt is the worst for every step.
        m.compare(total, sqrt(mass) * most, part="whole domain", reach=0.08)

    def propagate(self, m: Measurement, prompt: Prompt, steps: int) -> None:
        """Errors c/D_i with c = 1, in every step of the sign that moves the first query most."""
        law = theory.RowSumLaw(prompt.supports, RIDGE)
        bound = theory.relative_responses(prompt, KERNEL, ridge=RIDGE, step=law.step, steps=steps)
        sums = theory.row_sums(prompt, KERNEL)[..., None]
        a = theory.gram(prompt, KERNEL) + RIDGE * torch.eye(prompt.supports, dtype=torch.float64)
        reading = theory.cross(prompt, KERNEL)
        backward = [reading[:, :1].mT]
        for _ in range(steps - 1):
            backward.append(backward[-1] - law.step * a @ (backward[-1] / sums))
        error = torch.zeros_like(backward[0])
        for signs in reversed(backward):
            error = error + law.step * (signs.sign() - a @ error) / sums
        m.compare((reading @ error)[:, 0].abs(), bound[:, :1], part=f"{steps} steps", reach=NEARLY)


def dual_weights(prompt: Prompt) -> torch.Tensor:
    """A⁻¹k(x), one column per query."""
    a = theory.gram(prompt, KERNEL) + RIDGE * torch.eye(prompt.supports, dtype=torch.float64)
    solved: torch.Tensor = torch.linalg.solve(a, theory.cross(prompt, KERNEL).mT)
    return solved


class DigitProducts(Theorem):
    name = "digit-products"
    group = SIZES
    title = "A product by M digits errs by a quarter of the last one, and nowhere by more"
    states = ("digit-products",)
    measured = (
        "The first step of compiled models, which is one product, with 1/D at, next to and between the places "
        "where a digit changes; and predictions of every step against the certificate."
    )
    see = "The largest error of a product over |b| against the number of digits: it halves with each of them."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, rng = Measurement(), np.random.default_rng(seed)
        for tolerance in (1.0, 1e-2, 1e-4) if fast else (1.0, 1e-1, 1e-2, 1e-4, 1e-6):
            digits = planned(2, 1, tolerance, digits=True)
            assert isinstance(digits, DigitBackend)
            count = digits.digits
            prompt, w = at_thresholds(count, rng, 400 if fast else 1000)
            to = SoftmaxAttention(1.0, 2, Interpolated(TARGET, tolerance=tolerance, digits=True))
            model = compiled(SOLVER, prompt, to, ridge=RIDGE, kernel=KERNEL)
            found = trajectory(model, prompt, states=True).states["alpha"][1].numpy()
            step, y = theory.RowSumLaw(2, RIDGE).step, prompt.y.numpy()
            error = np.abs(found / step - w[:, None, None] * y) / np.abs(y)
            round_off = theory.digit_round_off_bound(
                count,
                weights=digits.digit_budget.weights,
                least=digits.digit_budget.least,
                alpha=0.0,
                b=TARGET,
                step=step,
            )
            product = theory.digit_product_bound(count, 1.0)
            m.at("error", count, error, product + round_off / np.abs(y))
            apart = trajectory(model, prompt).predictions - reference(model, prompt).predictions
            bound = model.certificate.absolute_error
            assert bound is not None
            m.compare(apart.abs(), bound)
        settings = f"{len(w)} prompts for each number of digits, |y| from 1/64 to {TARGET:g}"
        return m.outcome(settings, Axes("digits M", "|product − w·b| / |b|", log_x=False))


def at_thresholds(digits: int, rng: np.random.Generator, count: int) -> tuple[Prompt, np.ndarray]:
    """Pairs of supports with 1/D at or near multiples of half the last digit, and these 1/D."""
    last = 2.0**-digits
    index = rng.integers(int(0.35 / last), int(0.48 / last) + 1, count)
    offsets = np.array([0.0, 1 / 32, 1 / 16, 1 / 8, 3 / 16, 0.22, 0.25 - 1e-4, 0.25, 0.4, 7 / 16])
    near = rng.choice(offsets, count) * rng.choice([-1.0, 1.0], count)
    w = np.clip((index + rng.choice([0.0, 0.5], count) + near) * last, 0.34, 0.49)
    apart = KERNEL.lengthscale * np.sqrt(-2 * np.log(1 / w - 2))
    phi = np.zeros((count, 2, 2))
    phi[:, 0, 0], phi[:, 1, 0] = -apart / 2, apart / 2
    y = rng.choice([-1.0, 1.0], (count, 2, 1)) * TARGET * 2.0 ** rng.uniform(-8, 0, (count, 2, 1))
    return Prompt(*(torch.from_numpy(x) for x in (phi, y, phi[:, :1].copy()))), w


class DepthAndWidth(Theorem):
    name = "depth-and-width"
    group = SIZES
    title = "Ridge regression to ε, for every prompt of a domain, with stated depth and width"
    states = ("depth-and-width",)
    measured = (
        "Compiled models with the steps and digits of the theorem on random prompts, and on slopes that "
        "converge as slowly as any: |model − KRR| against ε, |f_T − KRR| and |model − f_T| against ε/2, and "
        "layers and neurons against their formulas."
    )
    see = "The largest distance to ridge regression after every step, down to the promised ε."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m = Measurement()
        counts = (8,) if fast else (8, 16, 32)
        for k in counts:
            law = theory.RowSumLaw(k, RIDGE, TARGET)
            steps = law.steps_for(ERROR / 2)
            digits = planned(k, steps, ERROR / 2, digits=True)
            assert isinstance(digits, DigitBackend)
            prompt = self.prompts(k, seed)
            to = SoftmaxAttention(1.0, k, Interpolated(TARGET, tolerance=ERROR / 2, digits=True))
            model = compiled(SOLVER, prompt, to, steps=steps, ridge=RIDGE, kernel=KERNEL)
            error = prediction_errors(model, prompt, KERNEL)
            exact = krr(prompt, ridge=RIDGE, kernel=KERNEL)
            solved = reference(model, prompt).predictions[-1]
            # No prompt is the worst for depth and width at once, nor in every step; slopes come nearest.
            m.compare(error[-1], ERROR, part="in all", reach=0.025)
            m.compare((solved - exact).abs(), ERROR / 2, part="depth", reach=0.05)
            apart = (trajectory(model, prompt).final - solved).abs()
            m.compare(apart, ERROR / 2, part="width", reach=0.008)
            for t in range(0, steps + 1, max(1, steps // 40)):
                m.draw(f"k ≤ {k}", t, error[t])
            config, spent = model.transformer.config, digits.digit_budget.spent(digits.digits)
            most = law.digits(steps=steps, tolerance=ERROR / 2, spent=spent)[1]
            m.count(config.d_mlp / (4 * most + 8), part="neurons")
            m.count(config.n_layers / (2 * steps + 2 * most + 57), part="layers")
        m.level("promised", ERROR, [0, steps])
        settings = f"k ≤ {', '.join(map(str, counts))}, {len(prompt.phi)} prompts, ε = {ERROR:g}, λ = {RIDGE:g}"
        return m.outcome(settings, Axes("step", "|model − ridge regression|"))

    def prompts(self, k: int, seed: int) -> Prompt:
        """Random ones, and slopes of several heights."""
        generator = torch.Generator().manual_seed(seed)
        phi, query = ball(generator, 1.0, 12, k, 2), ball(generator, 1.0, 12, 1, 2)
        y = TARGET * torch.randn(12, k, 1, generator=generator, dtype=torch.float64).sign()
        for index, height in enumerate((0.03, 0.05, 0.1, 0.2, 0.5, 1.0)):
            example = slope(k)
            phi[index], query[index] = sqrt(height) * example.phi[0], example.phi_query[0]
            y[index] = TARGET * example.y[0]
        return Prompt(phi, y, query)
