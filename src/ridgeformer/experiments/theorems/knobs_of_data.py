"""Collinear supports, temperature and width, turned until compiled models fail as theory says."""

from __future__ import annotations

from math import log

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, LinearAttention, SoftmaxAttention, compile
from ridgeformer.compiler.domain import LARGEST_NORMALISER
from ridgeformer.experiments.theorems.base import FAILURES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.experiments.theorems.hard import NEAR, NEARLY, promise, prompt_of_modes, rotation
from ridgeformer.kernels import Exponential
from ridgeformer.models import trajectory
from ridgeformer.solvers import Chebyshev, ConjugateGradient, effective_dimension
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
    group = FAILURES
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
        m = Measurement()
        for steps in depths:
            cg_name, fixed_name = f"cg, {steps} steps", f"chebyshev, {steps} steps"
            top = LinearAttention(max(tops.values()))
            cg = compiled(ConjugateGradient(), prompts[1], top, steps=steps, ridge=RIDGE)
            for d, prompt in prompts.items():
                values, energies = theory.spectral_energies(prompt, ridge=RIDGE, rank=d)
                whole = energies.sum(1).sqrt()
                floor = (theory.cg_energy_floor(values, energies, steps=steps) / whole).numpy()
                ceiling = [theory.chebyshev_factor(float(c), steps) for c in values[:, -1] / RIDGE]
                upper = np.where(d < steps, 0.0, ceiling)
                error = relative_energy(cg, prompt)
                # At d = T the floor is the error itself.
                m.between(error, floor, floor if d == steps else upper, promise(cg))
                if d == steps:
                    m.between(
                        error, floor, floor, promise(cg), part=f"{cg_name}, d = T", reach=NEARLY
                    )
                m.draw(cg_name, d, error)
                if floor.max() > 1e-17:
                    m.draw_bound(cg_name, d, floor.max(), "floor")
                to = LinearAttention(tops[d])
                fixed = compiled(Chebyshev(), prompt, to, steps=steps, ridge=RIDGE)
                level = theory.chebyshev_factor(1 + tops[d] / RIDGE, steps)
                least = level * (energies[:, 0].sqrt() / whole).numpy()
                slow = relative_energy(fixed, prompt)
                # The largest mode alone is half of the energy or more, and with one place all of it.
                m.between(
                    slow, least, level, promise(fixed), part=f"{fixed_name}, d = {d}", reach=0.25
                )
                m.draw(fixed_name, d, slow.min())
                m.draw_bound(fixed_name, d, least.min(), "at least")
        for t in depths:
            m.mark(t, f"ends left of d = {t}", of=f"cg, {t} steps")
        settings = (
            f"{supports} supports in 1 to {features} places, {batch} prompts of each, λ = {RIDGE:g}"
        )
        return m.outcome(settings, Axes("places d among the supports", "‖α_T − α*‖_A / ‖α*‖_A"))


def relative_energy(model: CompiledModel, prompt: Prompt) -> np.ndarray:
    """‖α_T − α*‖_A/‖α*‖_A of the coefficients that the model's supports hold at the end."""
    alpha = trajectory(model, prompt, states=True).states["alpha"][-1:]
    error = theory.energy_error(alpha, prompt, ridge=RIDGE)[0]
    relative: np.ndarray = (error / theory.target_energy(prompt, ridge=RIDGE))[:, 0].numpy()
    return relative


SUPPORTS, COSINE = 6, 0.5
FIT, NEW = "misfit at the supports", "|f| at new queries"


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
    group = FAILURES
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
        m = Measurement()
        m.count(0.0 if refuses(coldest * (1 - NEAR), prompt.features) else 2.0)
        size = prompt.y.norm(dim=1).numpy()
        for temperature in temperatures:
            kernel = Exponential(temperature)
            model = softmax_model(kernel, prompt.features)
            seen = model.predict(prompt)
            cases = temperature_cases(seen, prompt, kernel)
            allowance = promise(model) * float(seen.abs().max()) * k**0.5
            for name, case in zip(CASES, cases, strict=True):
                m.between(*case, allowance, part=name, reach=0.4)
            fit, new = ([v / size for v in case] for case in cases[-2:])
            if temperature == hot:  # half of a centred target is not fitted
                m.count(0.5 / fit[0][centred])
            if temperature == cold:  # the number is for the angles of the first kind
                m.count(new[0][:batch] / 0.1)
            # Drawn down to what the certificate leaves open.
            misfit, at_least, at_most = (max(values[centred].max(), 1e-9) for values in fit)
            m.draw(FIT, temperature, misfit)
            m.draw_bound(FIT, temperature, at_least, "at least")
            m.draw_bound(FIT, temperature, at_most, "at most")
            m.draw(NEW, temperature, max(new[0][others].max(), 1e-9))
            if (ceiling := new[2][others].max()) < 1:
                m.draw_bound(NEW, temperature, max(ceiling, 1e-9), "at most")
        m.mark(hot, "half at least when hotter", of=FIT)
        m.mark(cold, "a tenth at most when colder", of=NEW)
        m.mark(coldest, "compile refuses when colder")
        settings = (
            f"3 kinds of prompt, {len(temperatures)} temperatures, {batch} prompts of {k} supports"
        )
        return m.outcome(settings, Axes("temperature τ", "relative to ‖y‖", log_x=True))


CASES = ("hot limit", "cold limit", FIT, NEW)


def temperature_cases(
    seen: Tensor, prompt: Prompt, kernel: Exponential
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Measured, lower and upper bound: two limits, the misfit at the supports, sizes at new queries."""
    k, none = SUPPORTS, torch.zeros(1, 1, dtype=torch.float64)
    least, most = theory.cold_misfit_bounds(prompt, ridge=RIDGE, kernel=kernel)
    nothing_fits = theory.hot_misfit_bound(prompt, ridge=RIDGE, kernel=kernel)
    hot = seen - theory.hot_limit(prompt, ridge=RIDGE)
    cold = seen - theory.cold_limit(prompt, ridge=RIDGE, kernel=kernel)
    size = theory.cold_size_bound(prompt, ridge=RIDGE, kernel=kernel)[:, k:].amax(1)
    cases = [
        (hot.abs(), none, theory.hot_bound(prompt, ridge=RIDGE, kernel=kernel)),
        (cold.abs(), none, theory.cold_bound(prompt, ridge=RIDGE, kernel=kernel)),
        ((prompt.y - seen[:, :k]).norm(dim=1), torch.maximum(least, nothing_fits), most),
        (seen[:, k:].abs().amax(1), none, size),
    ]
    return [(m.numpy(), lower.numpy(), upper.numpy()) for m, lower, upper in cases]


def refuses(temperature: float, features: int) -> bool:
    try:
        softmax_model(Exponential(temperature), features)
    except Refusal:
        return True
    return False


def softmax_model(kernel: Exponential, features: int) -> CompiledModel:
    """CG for as many steps as there are supports, so that it has ended."""
    to = SoftmaxAttention(1.0, SUPPORTS)
    return compile(
        ConjugateGradient(), features=features, steps=SUPPORTS, ridge=RIDGE, kernel=kernel, to=to
    )


LEADING, RANDOM = "leading directions", "random directions"


class KnobWidth(Theorem):
    name = "knob-width"
    group = FAILURES
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
        exact = torch.linalg.inv(theory.preconditioned_system(base, ridge=RIDGE)[0])
        frames = {
            LEADING: torch.linalg.svd(base.phi[0]).Vh.mT,
            RANDOM: rotation(1, features, torch.Generator().manual_seed(seed))[0],
        }
        m, needed, measured, beyond = Measurement(), int((spectrum > RIDGE).sum()), 1, set()
        for name, frame in frames.items():
            for width in range(1, features + 1):
                sketch = phi @ frame[:, :width]
                prompt = Prompt(sketch, y, sketch[:, :1])
                model = compiled(
                    Chebyshev(), prompt, LinearAttention(top), steps=steps, ridge=RIDGE
                )
                alpha = trajectory(model, prompt, states=True).states["alpha"][-1, ..., 0]
                apart = RIDGE * float(torch.linalg.matrix_norm(alpha - exact, 2))
                distance = torch.linalg.matrix_norm(theory.gram(base) - theory.gram(prompt)[:1], 2)
                floor = RIDGE * float(theory.rank_error(base, rank=width, ridge=RIDGE))
                most = RIDGE * float(theory.resolvent_bound(distance, ridge=RIDGE))
                upper = floor if name == LEADING else most
                # The leading directions meet what every width must lose; of random ones no width need.
                part = f"{name}, m = {width}" if name == LEADING and width < features else ""
                m.between(apart, floor, upper, promise(model) + unsolved, part=part, reach=NEARLY)
                if name == RANDOM:
                    m.between(apart, 0.0, upper, promise(model) + unsolved, part=name, reach=0.5)
                beyond.add(model.transformer.config.d_model - width)
                measured += name == LEADING and apart > 0.5
                if width < features:  # with all features nothing is left but round-off
                    m.draw(name, width, apart)
                    said = "predicted" if name == LEADING else "at most"
                    m.draw_bound(name, width, upper, said)
        m.count(measured / needed, needed / measured, len(beyond))
        enough = int(theory.sufficient_width(base, tolerance=1.0, ridge=RIDGE))
        dimension = float(effective_dimension(base, ridge=RIDGE))
        m.mark(needed, f"{needed} eigenvalues above λ", of=LEADING)
        m.mark(dimension, f"effective dimension {dimension:.3g}")
        m.mark(enough, f"enough by the effective dimension: {enough}")
        m.level("½", 0.5, (1, features))
        settings = f"{features} widths, {steps} steps, {supports} prompts of {supports} supports, λ = {RIDGE:g}"
        return m.outcome(settings, Axes("feature channels m", "λ‖A⁻¹ − Â⁻¹‖₂"))
