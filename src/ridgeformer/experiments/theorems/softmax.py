"""Softmax attention: certified errors of interpolated products, and dot products from heads."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import HeadPairs, Interpolated, SoftmaxAttention
from ridgeformer.experiments.theorems.base import SOFTMAX, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import ball, compiled, two_ends
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.experiments.theorems.set_up import set_up
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import GradientDescent, NadarayaWatson, Richardson
from ridgeformer.tasks import Prompt
from ridgeformer.theory.interpolation import Range


class InterpolatedProducts(Theorem):
    name = "interpolated-products"
    group = SOFTMAX
    title = "A ReLU MLP keeps its certificate, and the floor falls as width⁻²"
    states = ("interpolated-products",)
    measured = (
        "The error of compiled models at every step is compared with what their certificate promises "
        "for each width. Set-up and round-off are measured where they are most of it: 1/D, D, and predictions."
    )
    see = "The largest error at each width against the certificate: both fall as width⁻²."

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, ridge, steps, radius, kernel = 24, 0.1, 24, 1.0, Gaussian(0.5)
        prompts = 16 if fast else 200
        generator = torch.Generator().manual_seed(seed)
        phi, query = ball(generator, radius, prompts, k, 2), ball(generator, radius, prompts, 8, 2)
        y = 2 * torch.randn(prompts, k, 1, generator=generator, dtype=torch.float64).sign()
        # Half with all supports and a query in one place, where the same error is made at all of them.
        few = prompts // 2
        phi[:few], query[:few, 0], y[: few // 2] = phi[:few, :1], phi[:few, 0], y[: few // 2, :1]
        y[: few // 2] *= torch.rand(few // 2, 1, 1, generator=generator, dtype=torch.float64)
        prompt = Prompt(phi, y, query)
        m, solver = Measurement(), Richardson(precondition="row-sum")
        widths = (256, 512, 1024) if fast else (256, 512, 1024, 2048, 4096)
        for width in widths:
            to = SoftmaxAttention(radius, k, products=Interpolated(2.0, width=width))
            model = compiled(solver, prompt, to, steps=steps, ridge=ridge, kernel=kernel)
            error = trajectory(model, prompt).predictions - reference(model, prompt).predictions
            bound = model.certificate.absolute_error
            assert bound is not None
            # The certificate is for the worst errors of all products at once; prompts reach .07 to .14 of it.
            m.at("error", width, error.abs(), bound, said="certified", each=True, reach=0.05)
        one_product(m)
        set_up(m, prompts, seed)
        settings = f"{len(widths)} widths, {prompts} prompts of {k} supports, {steps} steps"
        return m.outcome(settings, Axes("MLP width", "|model − solver|", log_x=True))


def one_product(m: Measurement) -> None:
    """One interpolated product over the whole of its ranges, whose error is met between the knots."""
    for intervals in (1, 3, 8):
        for a, b in (
            ((-1.0, 1.0), (-1.0, 1.0)),
            ((-1.0, 3.0), (0.5, 1.0)),
            ((0.0, 1e-3), (-7.0, 5.0)),
        ):
            x, y = np.meshgrid(*(np.linspace(*ends, 8 * intervals + 1) for ends in (a, b)))
            apart = np.abs(interpolated_product(x, y, a, b, intervals) - x * y)
            bound = theory.product_error_bound(a, b, intervals)
            m.compare(apart, bound, part=f"one product, {intervals} intervals", reach=NEARLY)


def interpolated_product(
    x: np.ndarray, y: np.ndarray, a: Range, b: Range, intervals: int
) -> np.ndarray:
    """((s·x + y)² − (s·x − y)²)/4s with both squares interpolated linearly between equidistant knots."""
    s = theory.balance(a, b)
    sums, differences = (s * a[0] + b[0], s * a[1] + b[1]), (s * a[0] - b[1], s * a[1] - b[0])

    def square(z: np.ndarray, ends: Range) -> np.ndarray:
        knots = np.linspace(*ends, intervals + 1)
        found: np.ndarray = np.interp(z, knots, knots**2)
        return found

    product: np.ndarray = (square(s * x + y, sums) - square(s * x - y, differences)) / (4 * s)
    return product


class DotProducts(Theorem):
    name = "dot-products"
    group = SOFTMAX
    title = "2h softmax heads give dot products to order ε²ʰ"
    states = ("dot-products",)
    measured = (
        "One mat-vec of a compiled model against the bound with its round-off, entry by entry, and in norm "
        "over all supports against the bound on ‖E‖, for k = 2 and 31 at the smallest and the largest ε."
    )
    see = "Error against the scale of the logits: slopes 2, 4, 6, 8, down to the round-off floor."

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, p, radius, prompts = 31, 4, 1.0, 8 if fast else 32
        prompt = two_ends(prompts, k, p, radius, seed)
        step = 2 / (2 + k * radius**2)  # α after one step of gradient descent is η·y
        scores = (prompt.phi_query @ prompt.phi.mT).numpy()
        values = step * prompt.y.mT.numpy()
        exact = (scores * values).sum(-1)
        m = Measurement()
        for pairs in (1, 2, 3, 4):
            scales = np.geomspace(0.004, 0.95 * np.pi / 2 / pairs, 5 if fast else 12).tolist()
            for epsilon in scales:
                to = SoftmaxAttention(radius, k, dot_products=HeadPairs(2 * pairs, epsilon))
                model = compiled(GradientDescent(), prompt, to)
                error = np.abs(model.predict(prompt).numpy()[..., 0] - exact)
                bound = theory.dot_product_bound(
                    scores, values, epsilon=epsilon, pairs=pairs, max_norm=radius, features=p
                )
                m.at(f"{2 * pairs} heads", epsilon, error, bound, reach=0.1)
            for epsilon in scales[:: len(scales) - 1]:
                for few in (2, k):
                    m.compare(*operator_error(few, p, radius, pairs, epsilon, seed))
        settings = f"2 to 8 heads, {len(scales)} scales, {prompts} prompts of {k} supports"
        return m.outcome(settings, Axes("ε, with |φ| ≤ 1", "error of a mat-vec", log_x=True))


def operator_error(
    supports: int, features: int, radius: float, pairs: int, epsilon: float, seed: int
) -> tuple[torch.Tensor, float]:
    """‖(K̂ − K)v‖/‖v‖ over the supports of some prompts, and the bound on it."""
    prompt = two_ends(8, supports, features, radius, seed)
    prompt = Prompt(prompt.phi, prompt.y, prompt.phi)
    to = SoftmaxAttention(radius, supports, dot_products=HeadPairs(2 * pairs, epsilon))
    model = compiled(GradientDescent(), prompt, to)
    alpha = 2 / (2 + supports * radius**2) * prompt.y
    apart = model.predict(prompt) - prompt.phi @ (prompt.phi.mT @ alpha)
    errors = theory.HeadPairErrors(supports, features, epsilon, pairs, radius)
    return apart.norm(dim=1) / alpha.norm(dim=1), errors.operator


class RowSumSpectrum(Theorem):
    name = "row-sum-spectrum"
    group = SOFTMAX
    title = "Softmax preconditions, and no further than the supports coincide"
    states = ("row-sums",)
    measured = "The extreme eigenvalues of D⁻¹A against both ends of the interval."
    see = "κ' = cond(D⁻¹A) against the number of supports: coinciding supports lie on the bound, random ones below."

    def measure(self, seed: int, fast: bool) -> Outcome:
        ridge, prompts = 0.1, 8 if fast else 64
        counts = (2, 4, 8, 16, 32) if fast else (2, 4, 8, 16, 32, 64, 128)
        m = Measurement()
        for name, kernel in (("gaussian", Gaussian(0.5)), ("exponential", Exponential(1.0))):
            for k in counts:
                phi = ball(torch.Generator().manual_seed(seed), 1.0, prompts, k, 2)
                y = torch.zeros(prompts, k, 1, dtype=torch.float64)
                same = phi[:, :1].expand(-1, k, -1)
                for label, points in (("random", phi), ("in one place", same)):
                    prompt = Prompt(points, y, points[:, :1])
                    values = theory.system_eigenvalues(
                        prompt, ridge=ridge, kernel=kernel, precondition="row-sum"
                    )
                    sums = theory.row_sums(prompt, kernel)
                    low, high = theory.row_sum_spectrum_bound(sums, ridge=ridge)
                    least, most = values.amin(-1), values.amax(-1)
                    # Supports in one place meet both ends; random ones stay inside.
                    where = f"{name}, in one place, k = {k}" if label == "in one place" else ""
                    m.count(low / least, part=where and f"{where}: lower end", reach=NEARLY)
                    m.count(most / high, part=where and f"{where}: upper end", reach=NEARLY)
                    m.draw(f"{name}, {label}", k, most / least)
                    m.draw_bound(f"{name}, {label}", k, high / low)
        settings = (
            f"2 kernels, k = {counts[0]} … {counts[-1]}, {prompts} prompts each, λ = {ridge:g}"
        )
        return m.outcome(settings, Axes("supports k", "κ'", log_x=True))


class SmootherLimits(Theorem):
    name = "temperature"
    group = SOFTMAX
    title = "One head is a mean when hot and a nearest neighbour when cold"
    states = ("smoother-temperature",)
    measured = "The predictions of one compiled head."
    see = "A compiled head comes to the mean when hot and to its nearest neighbour when cold, as fast as the bounds say."

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, p, radius, prompts = 16, 3, 1.0, 16 if fast else 200
        generator = torch.Generator().manual_seed(seed)
        phi, query = ball(generator, radius, prompts, k, p), ball(generator, radius, prompts, 8, p)
        y = torch.randn(prompts, k, 1, generator=generator, dtype=torch.float64)
        # The worst case when hot: half of the supports at the query, half opposite to it, targets to match.
        pole = torch.tensor([radius, 0.0, 0.0], dtype=torch.float64)
        side = torch.ones(k, 1, dtype=torch.float64)
        side[k // 2 :] = -1
        quarter, next_quarter = slice(0, prompts // 4), slice(prompts // 4, prompts // 2)
        phi[quarter], query[quarter, 0], y[quarter] = side * pole, pole, side
        # When cold: one support at the query, all others a little less near, in one place.
        phi[next_quarter], query[next_quarter, 0], y[next_quarter] = 0.9 * pole, pole, -1
        phi[next_quarter, 0], y[next_quarter, 0] = pole, 1
        prompt = Prompt(phi, y, query)
        mean = y.mean(1, keepdim=True)
        _, nearest = theory.nearest_targets(prompt)
        temperatures = np.geomspace(1e-3, 1e3, 7 if fast else 25).tolist()
        m, to = Measurement(), SoftmaxAttention(products=None)
        for temperature in temperatures:
            kernel = Exponential(temperature)
            f = compiled(NadarayaWatson(), prompt, to, ridge=None, kernel=kernel).predict(prompt)
            hot = theory.smoother_hot_bound(prompt, temperature=temperature, max_norm=radius)
            cold = theory.smoother_cold_bound(prompt, temperature=temperature)
            for name, limit, bound, worst in (
                ("from the mean", mean, hot, quarter),
                ("from the nearest neighbour", nearest, cold, next_quarter),
            ):
                # Both bounds are attained: below 1e-6 round-off in f is more than 1e-9 of them.
                apart, most = (f - limit).abs(), bound.expand_as(f)
                m.compare(apart, bound, 1e-6)
                # Each limit is for its own end: at the other one its bound says less.
                if float(most[worst, 0].max()) > 1e-6:
                    hardest, part = (
                        (apart[worst, 0], most[worst, 0]),
                        f"{name}, τ = {temperature:.3g}",
                    )
                    m.compare(*hardest, part=name, reach=NEARLY)
                    m.compare(*hardest, part=part, reach=0.4 if limit is mean else 0.04)
                m.draw(name, temperature, apart[worst, 0])
                m.draw_bound(name, temperature, most[worst, 0])
        settings = f"{len(temperatures)} temperatures, {prompts} prompts of {k} supports"
        return m.outcome(
            settings, Axes("temperature τ", "distance on the hardest prompts", log_x=True)
        )
