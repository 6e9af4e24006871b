"""Collinear supports, temperature and width, turned until compiled models fail as theory says."""

from __future__ import annotations

from math import log

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import (
    CompiledModel,
    LinearAttention,
    SoftmaxAttention,
    compile,
)
from ridgeformer.compiler.domain import LARGEST_NORMALISER
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem
from ridgeformer.experiments.theorems.hard import (
    NEAR,
    both_sides,
    mark,
    promise,
    prompt_of_modes,
    rotation,
)
from ridgeformer.kernels import Exponential
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, effective_dimension, make_solver
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import normal
from ridgeformer.types import Refusal

RIDGE = 1.0


def copied(distinct: int, supports: int, features: int, batch: int, seed: int) -> Prompt:
    """Supports in so many distinct places, in turn, each with a target of its own."""
    generator = torch.Generator().manual_seed(seed)
    places = normal(generator, batch, distinct, features)
    phi = places[:, torch.arange(supports) % distinct]
    y = normal(generator, batch, supports, 1)
    return Prompt(phi, y, normal(generator, batch, 2, features))


class KnobCollinear(Theorem):
    name = "knob-collinear"
    title = "Collinear supports: CG ends sooner, fixed coefficients do not notice"
    states = ("collinear",)
    measured = "Errors of the coefficients that compiled models hold, over ‖α*‖_A."
    see = (
        "CG's error after T steps is round-off while there are fewer than T places, and jumps to the dotted "
        "floor at d = T; Chebyshev's stays on its level, however many supports coincide."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        batch, features, supports = (8, 7, 14) if fast else (64, 8, 16)
        depths = (3,) if fast else (3, 5)
        prompts = {d: copied(d, supports, features, batch, seed) for d in range(1, features + 1)}
        tops = {d: float(theory.eigenvalue_after(p, rank=0).max()) for d, p in prompts.items()}
        collected: list[np.ndarray] = []
        lines: list[Line] = []
        for steps in depths:
            cg = linear_model("cg", features, steps, max(tops.values()))
            curves: dict[str, list[float]] = {}
            for d, prompt in prompts.items():
                values, energies = theory.spectral_energies(prompt, ridge=RIDGE, rank=d)
                whole = energies.sum(1).sqrt()
                floor = (theory.cg_energy_floor(values, energies, steps=steps) / whole).numpy()
                ceiling = [theory.chebyshev_factor(float(c), steps) for c in values[:, -1] / RIDGE]
                upper = np.where(d < steps, 0.0, ceiling)
                error = relative_energy(cg, prompt)
                # At d = T the floor is the error itself.
                collected.append(
                    both_sides(error, floor, floor if d == steps else upper, promise(cg))
                )
                fixed = linear_model("chebyshev", features, steps, tops[d])
                level = theory.chebyshev_factor(1 + tops[d] / RIDGE, steps)
                least = level * (energies[:, 0].sqrt() / whole).numpy()
                slow = relative_energy(fixed, prompt)
                collected.append(both_sides(slow, least, np.array(level), promise(fixed)))
                for name, value in (
                    (f"cg, {steps} steps", error.max()),
                    (f"cg, {steps} steps, floor", floor.max()),
                    (f"chebyshev, {steps} steps", slow.min()),
                    (f"chebyshev, {steps} steps, at least", least.min()),
                ):
                    curves.setdefault(name, []).append(max(float(value), 1e-17))
            for name, line in curves.items():
                dotted = name.endswith(("floor", "at least"))
                shown = [
                    (x, v) for x, v in zip(prompts, line, strict=True) if v > 1e-17 or not dotted
                ]
                lines.append(Line(name, [x for x, _ in shown], [v for _, v in shown], dotted))
        drawn = list(lines)
        lines += [mark(f"cg, {t} steps, ends left of d = {t}", t, drawn) for t in depths]
        settings = (
            f"{supports} supports in 1 to {features} places, {batch} prompts of each, λ = {RIDGE:g}"
        )
        axes = Axes("places d among the supports", "‖α_T − α*‖_A / ‖α*‖_A")
        return Outcome(settings, np.concatenate(collected), lines, axes)


def linear_model(name: str, features: int, steps: int, max_eigenvalue: float) -> CompiledModel:
    return compile(
        make_solver(name),
        features=features,
        steps=steps,
        ridge=RIDGE,
        to=LinearAttention(max_eigenvalue),
    )


def relative_energy(model: CompiledModel, prompt: Prompt) -> np.ndarray:
    """‖α_T − α*‖_A/‖α*‖_A of the coefficients that the model's supports hold at the end."""
    alpha = trajectory(model, prompt, states=True).states["alpha"][-1:]
    relative: np.ndarray = (
        theory.energy_error(alpha, prompt, ridge=RIDGE)[0]
        / theory.target_energy(prompt, ridge=RIDGE)
    )[:, 0].numpy()
    return relative


SUPPORTS = 6
COSINE = 0.5


def on_the_sphere(batch: int, seed: int) -> Prompt:
    """Unit features, a batch of each kind: equal angles, random directions, two opposite poles.

    Queries are the supports, then two new points. Half of the targets are centred.
    """
    k, generator = SUPPORTS, torch.Generator().manual_seed(seed)
    p = k + 3
    # √c e₀ + √(1−c) e_i: any two have the cosine c, supports and queries alike.
    frame = (1 - COSINE) ** 0.5 * torch.eye(k + 2, dtype=torch.float64)
    equal = torch.cat([torch.full((k + 2, 1), COSINE**0.5, dtype=torch.float64), frame], 1)
    side = torch.ones(k + 2, 1, dtype=torch.float64)
    side[k // 2 : k] = -1
    features = torch.cat(
        [
            equal @ rotation(batch, p, generator).mT,
            unit(normal(generator, batch, k + 2, p)),
            side * unit(normal(generator, batch, 1, p)),
        ]
    )
    y = 1 + normal(generator, batch, k, 1)
    y[: batch // 2] -= y[: batch // 2].mean(1, keepdim=True)
    targets = torch.cat([y, y, side[:k].expand(batch, -1, -1)])
    return Prompt(features[:, :k], targets, features)


def unit(x: Tensor) -> Tensor:
    length: Tensor = x.norm(dim=-1, keepdim=True)
    return x / length


class KnobTemperature(Theorem):
    name = "knob-temperature"
    title = "Temperature: hot, ridge regression fits only the mean; cold, only its supports"
    states = ("krr-temperature",)
    measured = (
        "Compiled CG with as many steps as supports, on unit features. Where 1 + kg passes 1e15, "
        "compile must refuse."
    )
    see = (
        "Hot, a centred target is not fitted at its own supports; cold, it is memorised and new queries "
        "get nothing: within the dotted bounds, and by at least half and a tenth beyond the verticals."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        k, batch = SUPPORTS, 8 if fast else 64
        prompt = on_the_sphere(batch, seed)
        centred, others = slice(0, batch // 2), slice(batch // 2, batch)  # of the first kind
        hot = theory.hot_temperature(k, 1.0, ridge=RIDGE, share=0.5)
        cold = theory.cold_temperature(k, 1 - COSINE, share=0.1)
        coldest = 1 / log((LARGEST_NORMALISER["float64"] - 1) / k)
        span = np.geomspace(coldest * (1 + NEAR), 1e3, 3 if fast else 20).tolist()
        temperatures = sorted([*span, hot, cold])
        collected = [np.array([0.0 if refuses(coldest * (1 - NEAR), prompt.features) else 2.0])]
        rows = []
        for temperature in temperatures:
            kernel = Exponential(temperature)
            model = softmax_model(kernel, prompt.features)
            seen = model.predict(prompt)
            cases = temperature_cases(seen, prompt, kernel)
            allowance = promise(model) * float(seen.abs().max()) * k**0.5
            collected += [both_sides(*case, allowance) for case in cases]
            size = prompt.y.norm(dim=1).numpy()
            fit, new = ([v / size for v in case] for case in cases[-2:])
            if temperature == hot:  # half of a centred target is not fitted
                collected.append(0.5 / fit[0][centred].ravel())
            if temperature == cold:  # the number is for the angles of the first kind
                collected.append(new[0][:batch].ravel() / 0.1)
            rows.append(
                [
                    temperature,
                    *(v[centred].max() for v in fit),
                    *(v[others].max() for v in new[::2]),
                ]
            )
        lines = temperature_lines(np.array(rows))
        drawn = list(lines)
        lines += [
            mark("misfit at the supports, half at least when hotter", hot, drawn),
            mark("|f| at new queries, a tenth at most when colder", cold, drawn),
            mark("compile refuses when colder", coldest, drawn),
        ]
        settings = (
            f"3 kinds of prompt, {len(temperatures)} temperatures, {batch} prompts of {k} supports"
        )
        axes = Axes("temperature τ", "relative to ‖y‖", log_x=True)
        return Outcome(settings, np.concatenate(collected), lines, axes)


def temperature_cases(
    seen: Tensor, prompt: Prompt, kernel: Exponential
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Measured, lower and upper bound: two limits, the misfit at the supports, sizes at new queries."""
    k = SUPPORTS
    none = torch.zeros(1, dtype=torch.float64)
    least, most = theory.cold_misfit_bounds(prompt, ridge=RIDGE, kernel=kernel)
    cases = [
        (
            (seen - theory.hot_limit(prompt, ridge=RIDGE)).abs(),
            none,
            theory.hot_bound(prompt, ridge=RIDGE, kernel=kernel),
        ),
        (
            (seen - theory.cold_limit(prompt, ridge=RIDGE, kernel=kernel)).abs(),
            none,
            theory.cold_bound(prompt, ridge=RIDGE, kernel=kernel),
        ),
        (
            (prompt.y - seen[:, :k]).norm(dim=1),
            torch.maximum(least, theory.hot_misfit_bound(prompt, ridge=RIDGE, kernel=kernel)),
            most,
        ),
        (
            seen[:, k:].abs().amax(1),
            none.expand(len(seen), 1),
            theory.cold_size_bound(prompt, ridge=RIDGE, kernel=kernel)[:, k:].amax(1),
        ),
    ]
    return [(m.numpy(), lower.numpy(), upper.numpy()) for m, lower, upper in cases]


def temperature_lines(rows: np.ndarray) -> list[Line]:
    # Drawn down to what the certificate leaves open.
    x, misfit, least, most, size, ceiling = np.maximum(rows, 1e-9).T
    below = ceiling < 1
    return [
        Line("misfit at the supports", x.tolist(), misfit.tolist()),
        Line("misfit at the supports, at least", x.tolist(), least.tolist(), bound=True),
        Line("misfit at the supports, at most", x.tolist(), most.tolist(), bound=True),
        Line("|f| at new queries", x.tolist(), size.tolist()),
        Line("|f| at new queries, at most", x[below].tolist(), ceiling[below].tolist(), bound=True),
    ]


def refuses(temperature: float, features: int) -> bool:
    try:
        softmax_model(Exponential(temperature), features)
    except Refusal:
        return True
    return False


def softmax_model(kernel: Exponential, features: int) -> CompiledModel:
    """CG for as many steps as there are supports, so that it has ended."""
    return compile(
        ConjugateGradient(),
        features=features,
        steps=SUPPORTS,
        ridge=RIDGE,
        kernel=kernel,
        to=SoftmaxAttention(1.0, SUPPORTS),
    )


class KnobWidth(Theorem):
    name = "knob-width"
    title = "Width: m feature channels fail while σ exceeds λ beyond them"
    states = ("width-failure", "width-rank")
    measured = (
        "A model takes one channel per feature; compiled with m of them its coefficients are Â⁻¹y for "
        "a K̂ of rank m. The leading directions must meet the lower bound, random ones stay below "
        "e/(λ(λ + e))."
    )
    see = (
        "Compiled models of every width: the leading directions lie on the prediction and cross ½ at the "
        "dotted vertical; random directions do no better than the floor, and stay under their own bound."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        features, top = (7, 12.0) if fast else (10, 50.0)
        spectrum = top * 3.0 ** -torch.arange(features, dtype=torch.float64)
        ones = torch.ones(features, dtype=torch.float64)
        base, supports = prompt_of_modes(spectrum, ones, ones, 1, seed), features
        # The columns of the identity as targets, one prompt each: the coefficients are Â⁻¹ itself.
        phi = base.phi.expand(supports, -1, -1)
        y = torch.eye(supports, dtype=torch.float64)[..., None]
        # In so many steps Chebyshev brings every mode of any Â to 1e-9.
        steps = theory.chebyshev_steps(1 + top / RIDGE, 1e-9)
        unsolved = theory.chebyshev_factor(1 + top / RIDGE, steps)
        exact = torch.linalg.inv(
            theory.gram(base)[0] + RIDGE * torch.eye(supports, dtype=torch.float64)
        )
        leading = torch.linalg.svd(base.phi[0]).Vh.mT
        generator = torch.Generator().manual_seed(seed)
        frames = {
            "leading directions": leading,
            "random directions": rotation(1, features, generator)[0],
        }
        widths = list(range(1, features + 1))
        collected: list[np.ndarray] = []
        reached: dict[str, list[float]] = {}
        promised: list[float] = []
        beyond: set[int] = set()
        floors = [RIDGE * float(theory.rank_error(base, rank=m, ridge=RIDGE)) for m in widths]
        for name, frame in frames.items():
            for m, floor in zip(widths, floors, strict=True):
                sketch = phi @ frame[:, :m]
                prompt = Prompt(sketch, y, sketch[:, :1])
                model = linear_model("chebyshev", m, steps, top)
                alpha = trajectory(model, prompt, states=True).states["alpha"][-1, ..., 0]
                apart = RIDGE * torch.linalg.matrix_norm(alpha - exact, 2)
                distance = torch.linalg.matrix_norm(theory.gram(base) - theory.gram(prompt)[:1], 2)
                most = RIDGE * float(theory.resolvent_bound(distance, ridge=RIDGE))
                upper = floor if name == "leading directions" else most
                allowance = promise(model) + unsolved
                collected.append(
                    both_sides(apart.numpy(), np.array(floor), np.array(upper), allowance)
                )
                beyond.add(model.transformer.config.d_model - m)
                reached.setdefault(name, []).append(float(apart))
                if name == "random directions":
                    promised.append(most)
        needed = int((spectrum > RIDGE).sum())
        measured = 1 + sum(v > 0.5 for v in reached["leading directions"])
        collected.append(np.array([measured / needed, needed / measured, len(beyond)]))
        enough = int(theory.sufficient_width(base, tolerance=1.0, ridge=RIDGE))
        reached["leading directions, predicted"] = floors
        reached["random directions, at most"] = promised
        # With all features nothing is left but round-off.
        lines = [
            Line(name, widths[:-1], values[:-1], bound="," in name)
            for name, values in reached.items()
        ]
        drawn = list(lines)
        dimension = float(effective_dimension(base, ridge=RIDGE))
        lines += [
            mark(f"leading directions, {needed} eigenvalues above λ", needed, drawn),
            mark(f"effective dimension {dimension:.3g}", dimension, drawn),
            mark(f"enough by the effective dimension: {enough}", enough, drawn),
            Line("½", [1, features], [0.5, 0.5], bound=True),
        ]
        settings = f"{features} widths, {steps} steps, {supports} prompts of {supports} supports, λ = {RIDGE:g}"
        return Outcome(
            settings, np.concatenate(collected), lines, Axes("feature channels m", "λ‖A⁻¹ − Â⁻¹‖₂")
        )
