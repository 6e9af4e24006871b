"""Softmax attention: certified errors of interpolated products, and dot products from heads."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer.compiler import compile
from ridgeformer.kernels import Exponential, Gaussian, Linear
from ridgeformer.readout import reference, trajectory
from ridgeformer.solvers import (
    GradientDescent,
    NadarayaWatson,
    Richardson,
)
from ridgeformer.tasks import Prompt
from ridgeformer.theory import nearest_targets, smoother_cold_bound, smoother_hot_bound
from ridgeformer.verification.base import Axes, Line, Outcome, Theorem, ratios


def ball(generator: torch.Generator, radius: float, *shape: int) -> torch.Tensor:
    """Points in a ball, half of them on its surface."""
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    length = (
        torch.rand(*shape[:-1], 1, generator=generator, dtype=torch.float64).mul(2).clamp(max=1)
    )
    unit: torch.Tensor = x / x.norm(dim=-1, keepdim=True)
    return radius * length * unit


class InterpolatedProducts(Theorem):
    name = "interpolated-products"
    title = "A ReLU MLP keeps its certificate, and the floor falls as width⁻²"
    statement = (
        "|f_t − solver's f_t| ≤ √k(x,x) · √(k·D<sub>max</sub>) · Σ<sub>s</sub> max<sub>σ</sub> "
        "√σ|R<sub>t,s</sub>(σ)| · BR/2n² at every step, for n intervals per square, factors of range R "
        "and ±B, and impulse responses R<sub>t,s</sub> of the recurrence."
    )
    see = "The largest error at each width against the certificate: parallel lines of slope −2."
    attained = 1e-4  # the worst case over the domain is far from random prompts

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, ridge, steps, radius, kernel = 24, 0.1, 24, 1.0, Gaussian(0.5)
        prompts = 16 if fast else 200
        generator = torch.Generator().manual_seed(seed)
        phi, query = ball(generator, radius, prompts, k, 2), ball(generator, radius, prompts, 8, 2)
        phi[: prompts // 4] = phi[: prompts // 4, :1]  # a quarter with all supports in one place
        y = 2 * torch.randn(prompts, k, 1, generator=generator, dtype=torch.float64).sign()
        prompt = Prompt(phi, y, query)
        solver = Richardson(precondition="row-sum")
        widths = (256, 512, 1024) if fast else (256, 512, 1024, 2048, 4096)
        found, worst, promised = [], [], []
        for width in widths:
            model = compile(
                solver,
                features=2,
                steps=steps,
                ridge=ridge,
                kernel=kernel,
                attention="softmax",
                mlp="relu",
                mlp_width=width,
                max_norm=radius,
                max_supports=k,
                max_target=2.0,
            )
            error = trajectory(model, prompt).predictions - reference(model, prompt).predictions
            bound = model.certificate.absolute_error
            assert bound is not None
            found.append(ratios(error.abs().numpy(), np.array(bound), 0.0))
            worst.append(float(error.abs().max()))
            promised.append(bound)
        lines = [Line("measured", widths, worst), Line("certified", widths, promised, bound=True)]
        settings = f"{len(widths)} widths, {prompts} prompts of {k} supports, {steps} steps"
        axes = Axes("MLP width", "|model − solver|", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


class DotProducts(Theorem):
    name = "dot-products"
    title = "2h softmax heads give dot products to order ε²ʰ"
    statement = (
        "The mat-vec from h pairs of heads at logits ±cε⟨φ, φ'⟩ is off by at most x<sup>2h</sup> + u/x "
        "relative to k·R²·max|v|, for logits up to x = εR² ≤ 1 and u = 1e-14."
    )
    see = "Error against the scale of the logits: slopes 2, 4, 6, 8, down to the round-off floor."
    attained = 1e-3

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, p, radius = 32, 4, 2.0
        generator = torch.Generator().manual_seed(seed)
        prompts = 4 if fast else 32
        phi, query = ball(generator, radius, prompts, k, p), ball(generator, radius, prompts, 8, p)
        y = torch.randn(prompts, k, 1, generator=generator, dtype=torch.float64)
        prompt = Prompt(phi, y, query)
        scales = np.geomspace(0.01, 0.9, 5 if fast else 12)
        found, lines = [], []
        step = 2 / (2 + k * radius**2)  # α after one step of gradient descent is η·y
        exact = (query @ phi.mT @ y * step).numpy()
        for heads in (2, 4, 6, 8):
            errors = []
            for x in scales:
                model = compile(
                    GradientDescent(),
                    features=p,
                    steps=1,
                    ridge=1.0,
                    kernel=Linear(),
                    attention="softmax",
                    mlp="reglu",
                    heads=heads,
                    epsilon=float(x / radius**2),
                    max_norm=radius,
                    max_supports=k,
                )
                scale = step * k * radius**2 * y.abs().amax((1, 2), keepdim=True).numpy()
                error = np.abs(model.predict(prompt).numpy() - exact) / scale
                found.append(ratios(error, np.array(x**heads + 1e-14 / x), 0.0))
                errors.append(float(error.max()))
            lines.append(Line(f"{heads} heads", scales.tolist(), errors))
            bound = [float(x**heads + 1e-14 / x) for x in scales]
            lines.append(Line(f"{heads} heads, bound", scales.tolist(), bound, bound=True))
        settings = f"2 to 8 heads, {len(scales)} scales, {prompts} prompts of {k} supports"
        axes = Axes("largest logit x", "relative error of a mat-vec", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)


class SmootherLimits(Theorem):
    name = "temperature"
    title = "One head is a mean when hot and a nearest neighbour when cold"
    statement = (
        "For the Nadaraya–Watson smoother with |φ| ≤ R: |f − ȳ| ≤ tanh(R²/2τ)·(max y − min y), "
        "and |f − y<sub>j</sub>| ≤ (k − 1)e<sup>−g/τ</sup>·max|y<sub>i</sub> − y<sub>j</sub>|, where j has the "
        "largest ⟨φ<sub>j</sub>, φ(x)⟩ and g is its lead over the next. A head that is only a mean or only "
        "a neighbour cannot be ridge regression, whatever λ."
    )
    see = "Distance of a compiled head from the mean (hot) and from its nearest neighbour (cold), under bounds."

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
        _, nearest = nearest_targets(prompt)
        temperatures = np.geomspace(1e-3, 1e3, 7 if fast else 25).tolist()
        found = []
        hot: list[float] = []
        cold: list[float] = []
        for temperature in temperatures:
            model = compile(
                NadarayaWatson(),
                features=p,
                kernel=Exponential(temperature),
                attention="softmax",
            )
            f = model.predict(prompt)
            bounds = (
                (f - mean, smoother_hot_bound(prompt, temperature=temperature, max_norm=radius)),
                (f - nearest, smoother_cold_bound(prompt, temperature=temperature)),
            )
            for (apart, bound), line in zip(bounds, (hot, cold), strict=True):
                # Both bounds are attained: below 1e-6 round-off in f is more than 1e-9 of them.
                found.append(ratios(apart.abs().numpy(), bound.numpy(), 1e-6))
                line.append(float(apart.abs().max()))
        lines = [
            Line("from the mean", temperatures, hot),
            Line(
                "from the nearest neighbour",
                temperatures,
                np.maximum(cold, 1e-17).tolist(),
            ),
        ]
        settings = f"{len(temperatures)} temperatures, {prompts} prompts of {k} supports"
        axes = Axes("temperature τ", "largest distance", log_x=True)
        return Outcome(settings, np.concatenate(found), lines, axes)
