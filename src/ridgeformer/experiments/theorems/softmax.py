"""Softmax attention: certified errors of interpolated products, and dot products from heads."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer import theory
from ridgeformer.compiler import HeadPairs, Interpolated, SoftmaxAttention, compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.experiments.theorems.cases import ball
from ridgeformer.kernels import Exponential, Gaussian, Linear
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import (
    GradientDescent,
    NadarayaWatson,
    Richardson,
)
from ridgeformer.tasks import Prompt


class InterpolatedProducts(Theorem):
    name = "interpolated-products"
    title = "A ReLU MLP keeps its certificate, and the floor falls as width⁻²"
    states = ("interpolated-products",)
    measured = (
        "The error of compiled models at every step is compared with what their certificate promises "
        "for each width."
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
        solver = Richardson(precondition="row-sum")
        widths = (256, 512, 1024) if fast else (256, 512, 1024, 2048, 4096)
        collected, worst, promised = [], [], []
        for width in widths:
            model = compile(
                solver,
                features=2,
                steps=steps,
                ridge=ridge,
                kernel=kernel,
                to=SoftmaxAttention(radius, k, products=Interpolated(2.0, width=width)),
            )
            error = trajectory(model, prompt).predictions - reference(model, prompt).predictions
            bound = model.certificate.absolute_error
            assert bound is not None
            collected.append(ratios(error.abs().numpy(), np.array(bound), 0.0))
            worst.append(float(error.abs().max()))
            promised.append(bound)
        lines = [Line("measured", widths, worst), Line("certified", widths, promised, bound=True)]
        settings = f"{len(widths)} widths, {prompts} prompts of {k} supports, {steps} steps"
        axes = Axes("MLP width", "|model − solver|", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


class DotProducts(Theorem):
    name = "dot-products"
    title = "2h softmax heads give dot products to order ε²ʰ"
    states = ("dot-products",)
    measured = "One mat-vec of a compiled model against the bound with its round-off."
    see = "Error against the scale of the logits: slopes 2, 4, 6, 8, down to the round-off floor."

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, p, radius = 31, 4, 1.0
        prompts = 8 if fast else 32
        prompt = two_ends(prompts, k, p, radius, seed)
        step = 2 / (2 + k * radius**2)  # α after one step of gradient descent is η·y
        scores = (prompt.phi_query @ prompt.phi.mT).numpy()
        values = step * prompt.y.mT.numpy()
        exact = (scores * values).sum(-1)
        collected, lines = [], []
        for pairs in (1, 2, 3, 4):
            scales = np.geomspace(0.004, 0.95 * np.pi / 2 / pairs, 5 if fast else 12)
            errors, bounds = [], []
            for epsilon in scales:
                model = compile(
                    GradientDescent(),
                    features=p,
                    steps=1,
                    ridge=1.0,
                    kernel=Linear(),
                    to=SoftmaxAttention(
                        radius, k, dot_products=HeadPairs(2 * pairs, float(epsilon))
                    ),
                )
                error = np.abs(model.predict(prompt).numpy()[..., 0] - exact)
                bound = theory.dot_product_bound(
                    scores,
                    values,
                    epsilon=float(epsilon),
                    pairs=pairs,
                    max_norm=radius,
                    features=p,
                )
                collected.append(ratios(error, bound, 0.0))
                errors.append(float(error.max()))
                bounds.append(float(bound.max()))
            lines.append(Line(f"{2 * pairs} heads", scales.tolist(), errors))
            lines.append(Line(f"{2 * pairs} heads, bound", scales.tolist(), bounds, bound=True))
        settings = f"2 to 8 heads, {len(scales)} scales, {prompts} prompts of {k} supports"
        axes = Axes("ε, with |φ| ≤ 1", "error of a mat-vec", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


def two_ends(prompts: int, supports: int, features: int, radius: float, seed: int) -> Prompt:
    """Random points in a ball; in a quarter of the prompts, all at two ends of it, targets to match.

    With the aggregator's 0 between them, those come near the worst case: g is then close to tanh.
    """
    generator = torch.Generator().manual_seed(seed)
    phi = ball(generator, radius, prompts, supports, features)
    query = ball(generator, radius, prompts, 8, features)
    y = torch.randn(prompts, supports, 1, generator=generator, dtype=torch.float64)
    pole = torch.zeros(features, dtype=torch.float64)
    pole[0] = radius
    side = torch.ones(supports, 1, dtype=torch.float64)
    side[supports // 2 :] = -1
    few = prompts // 4
    phi[:few], query[:few, 0], y[:few] = side * pole, pole, side
    return Prompt(phi, y, query)


class Normaliser(Theorem):
    name = "normaliser"
    title = "Multiplying softmax's normaliser back costs u·D, and D grows as e^(1/τ)"
    states = ("normaliser",)
    measured = "One mat-vec of a compiled model in float64, over max|v|."
    see = "Error of a compiled mat-vec against temperature: it rises with D, as the bound does."
    attained = 1e-3  # round-off adds up as if at random, the bound as if it conspired

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, p, radius = 15, 3, 1.0
        prompts = 8 if fast else 64
        prompt = two_ends(prompts, k, p, radius, seed)
        collected, measured, bounds = [], [], []
        temperatures = np.geomspace(0.04, 40, 5 if fast else 13)
        for temperature in temperatures:
            kernel = Exponential(float(temperature))
            model = compile(
                GradientDescent(),
                features=p,
                steps=1,
                ridge=1.0,
                kernel=kernel,
                to=SoftmaxAttention(radius, k),
            )
            whole = theory.cross(prompt, kernel)
            exact = reference(model, prompt, states=True)
            largest = exact.states["alpha"][-1].abs().amax((1, 2))[:, None]
            error = (model.predict(prompt) - exact.predictions[-1])[..., 0].abs() / largest
            bound = theory.normaliser_round_off(
                1 + whole.sum(-1), tokens=k + 1, features=p, logit=radius**2 / float(temperature)
            )
            collected.append(ratios(error.numpy(), bound.numpy(), 0.0))
            measured.append(max(float(error.max()), 1e-17))
            bounds.append(float(bound.max()))
        x = temperatures.tolist()
        lines = [Line("measured", x, measured), Line("measured, bound", x, bounds, bound=True)]
        settings = f"{len(x)} temperatures, {prompts} prompts of {k} supports"
        axes = Axes("temperature τ, with |φ| ≤ 1", "|fl(D·o) − Kv| / max|v|", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


class RowSumSpectrum(Theorem):
    name = "row-sum-spectrum"
    title = "Softmax preconditions, and no further than the supports coincide"
    states = ("row-sums",)
    measured = "The extreme eigenvalues of D⁻¹A against both ends of the interval."
    see = "κ' = cond(D⁻¹A) against the number of supports: coinciding supports lie on the bound, random ones below."

    def measure(self, seed: int, fast: bool) -> Outcome:
        ridge, prompts = 0.1, 8 if fast else 64
        counts = (2, 4, 8, 16, 32) if fast else (2, 4, 8, 16, 32, 64, 128)
        collected = []
        lines: dict[str, list[float]] = {}
        for name, kernel in (("gaussian", Gaussian(0.5)), ("exponential", Exponential(1.0))):
            for k in counts:
                generator = torch.Generator().manual_seed(seed)
                phi = ball(generator, 1.0, prompts, k, 2)
                same = phi[:, :1].expand(-1, k, -1)
                y = torch.zeros(prompts, k, 1, dtype=torch.float64)
                for label, points in (("random", phi), ("in one place", same)):
                    prompt = Prompt(points, y, points[:, :1])
                    values = theory.system_eigenvalues(
                        prompt, ridge=ridge, kernel=kernel, precondition="row-sum"
                    )
                    low, high = theory.row_sum_spectrum_bound(
                        theory.row_sums(prompt, kernel), ridge=ridge
                    )
                    least, most = values.amin(-1), values.amax(-1)
                    collected += [(low / least).numpy(), (most / high).numpy()]
                    for line, value in ((label, most / least), (f"{label}, bound", high / low)):
                        lines.setdefault(f"{name}, {line}", []).append(float(value.max()))
        drawn = [Line(n, counts, v, bound=n.endswith("bound")) for n, v in lines.items()]
        settings = (
            f"2 kernels, k = {counts[0]} … {counts[-1]}, {prompts} prompts each, λ = {ridge:g}"
        )
        axes = Axes("supports k", "κ'", log_x=True)
        return Outcome(settings, np.concatenate(collected), drawn, axes)


class SmootherLimits(Theorem):
    name = "temperature"
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
        collected = []
        names = ("from the mean", "from the nearest neighbour")
        drawn: dict[str, list[float]] = {}
        for temperature in temperatures:
            model = compile(
                NadarayaWatson(),
                features=p,
                kernel=Exponential(temperature),
                to=SoftmaxAttention(products=None),
            )
            f = model.predict(prompt)
            cases = (
                (
                    f - mean,
                    theory.smoother_hot_bound(prompt, temperature=temperature, max_norm=radius),
                ),
                (f - nearest, theory.smoother_cold_bound(prompt, temperature=temperature)),
            )
            for name, (apart, bound), worst in zip(
                names, cases, (quarter, next_quarter), strict=True
            ):
                # Both bounds are attained: below 1e-6 round-off in f is more than 1e-9 of them.
                collected.append(ratios(apart.abs().numpy(), bound.numpy(), 1e-6))
                for line, values in ((name, apart.abs()), (f"{name}, bound", bound)):
                    largest = float(values.expand_as(f)[worst, 0].max())
                    drawn.setdefault(line, []).append(max(largest, 1e-17))
        lines = [Line(n, temperatures, v, bound=n.endswith("bound")) for n, v in drawn.items()]
        settings = f"{len(temperatures)} temperatures, {prompts} prompts of {k} supports"
        axes = Axes("temperature τ", "distance on the hardest prompts", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)
