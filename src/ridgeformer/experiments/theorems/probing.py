"""What linear probes find in the residual stream of compiled models, and what they find without them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer.analysis import Probe, Score, probe_new_parts, probe_vectors
from ridgeformer.analysis.directions import orthonormal, outside, unit
from ridgeformer.experiments.theorems.base import MECHANISM, Axes, Line, Outcome, Theorem
from ridgeformer.experiments.theorems.mechanism import EXACT, TASK, model_of
from ridgeformer.kernels import Linear
from ridgeformer.solvers import ConjugateGradient, EagerMachine, solve
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import lengths

COSINE = 0.99
"""What every vector must be recovered with, at the lower end of its interval."""

ERRORS = 4.0
"""At chance: a mean cosine of 0, within so many standard errors."""

TINY = 1e-300

LETTERS = {"alpha": "α", "r": "r", "p": "p"}


class Probes(Theorem):
    name = "probes"
    group = MECHANISM
    title = "Probes find the vectors of CG, and nothing new in random weights"
    states = ("new-part",)
    measured = (
        "One linear read-out of a token's stream, fitted on other prompts and not told the layout, "
        "must have a mean cosine above 0.99 with each of α_t, r_t and p_t of a compiled CG. No control "
        "may reach it but for α_1 and r_0, which are multiples of y. Chance is a mean cosine of 0, "
        "within four standard errors: targets dealt to other prompts must be at chance, and random "
        "weights of the same shape for what is new in step t ≥ 2. They need not be for t = 1, since "
        "one random layer of attention has Ky among its terms. On the numerics, r_t is orthogonal to "
        "y, …, K^{t−1}y, what is left of p_t and α_{t+1} without those is a multiple of r_t, and r_t lies on the "
        "same line for other λ, each to 1e-8."
    )
    see = "Blue is 1 everywhere; the controls fall to 0 as less of a vector lies along y, and ‘new’ shows what is left."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (3, 120) if fast else (4, 960)
        model, prompt = model_of("cg", steps=steps), TASK.draw(prompts, seed)
        whole = probe_vectors(model, prompt, seed=seed)
        new = probe_new_parts(model, prompt, seed=seed)
        collected = [(1 - p.found.low) / (1 - COSINE) for p in (*whole, *new)]
        collected += [from_chance(p.shuffled) for p in (*whole, *new)]
        collected += [
            max(p.embedding.high, p.random_weights.high) / p.found.low
            for p in (*whole, *new)
            if (p.name, p.step) not in {("alpha", 1), ("r", 0)}
        ]
        collected += [from_chance(p.random_weights) for p in new if p.step >= 2]
        collected += (new_directions(prompt[:60], steps) / EXACT).tolist()
        settings = (
            f"{steps} steps, {prompts} prompts of {prompt.supports} supports, a quarter scored"
        )
        axes = Axes("", "mean cosine, 95 % interval", log_y=False, bars="beside")
        return Outcome(settings, np.array(collected), bars(whole, new), axes)


def new_directions(prompt: Prompt, steps: int) -> Tensor:
    """How far the vectors of CG are from what the statement says of them, as sines and cosines of angles."""
    kernel, machine = Linear(), EagerMachine(prompt, Linear(), 1.0)
    runs = {
        ridge: solve(ConjugateGradient(), prompt, steps=steps, ridge=ridge, kernel=kernel, states=True)
        for ridge in (1.0, 0.1, 10.0)
    }  # fmt: skip
    states = runs[1.0].states
    power, krylov = prompt.y, prompt.y[..., :0]
    found = []
    for t in range(steps):
        new = states["r"][t]
        found.append(lengths(krylov.mT @ unit(new), 1))
        for vector in (states["p"][t], states["alpha"][t + 1]):
            found.append(off_line(outside(vector, krylov), new))
        found += [off_line(run.states["r"][t], new) for run in runs.values()]
        krylov = orthonormal(torch.cat([krylov, outside(power, krylov)], dim=-1))
        power = machine.kernel_product(krylov[..., -1:])
    return torch.cat(found).flatten()


def off_line(vector: Tensor, line: Tensor) -> Tensor:
    """The sine of the angle between a vector and a line; 1 for no vector at all."""
    along = unit(line)
    part = lengths(vector - along * (along * vector).sum(1, keepdim=True), 1)
    whole = lengths(vector, 1)
    return torch.where(whole > 0, part / whole.clamp(min=TINY), 1.0)


def from_chance(score: Score) -> float:
    """|mean cosine| over what chance allows; the interval is 2·1.96 standard errors wide."""
    return abs(score.value) / (ERRORS * (score.high - score.low) / (2 * 1.96))


def bars(whole: tuple[Probe, ...], new: tuple[Probe, ...]) -> list[Line]:
    names = [f"{LETTERS[p.name]}_{p.step}" for p in whole] + [f"new r_{p.step}" for p in new]
    scores = {
        "compiled": [p.found for p in (*whole, *new)],
        "embedding alone": [p.embedding for p in (*whole, *new)],
        "random weights": [p.random_weights for p in (*whole, *new)],
        "dealt targets": [p.shuffled for p in (*whole, *new)],
    }
    return [
        Line(
            name,
            names,
            [s.value for s in line],
            low=[s.low for s in line],
            high=[s.high for s in line],
        )
        for name, line in scores.items()
    ]
