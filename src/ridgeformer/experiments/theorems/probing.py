"""What linear probes find in the residual stream of compiled models, and what they find without them."""

from __future__ import annotations

import numpy as np

from ridgeformer.analysis import Probe, Score, probe_new_parts, probe_vectors
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem
from ridgeformer.experiments.theorems.mechanism import TASK, model_of

COSINE = 0.99
"""What every vector must be recovered with, at the lower end of its interval."""

ERRORS = 4.0
"""At chance: a mean cosine of 0, within so many standard errors."""

LETTERS = {"alpha": "α", "r": "r", "p": "p"}


class Probes(Theorem):
    name = "probes"
    title = "Probes find the vectors of CG, and nothing new in random weights"
    states = ("new-part",)
    measured = (
        "One linear read-out of a token's stream, fitted on other prompts and not told the layout, "
        "must have a mean cosine above 0.99 with each of α_t, r_t and p_t of a compiled CG. No control "
        "may reach it but for α_1 and r_0, which are multiples of y. Chance is a mean cosine of 0, "
        "within four standard errors: targets dealt to other prompts must be at chance, and random "
        "weights of the same shape for what is new in step t ≥ 2. They need not be for t = 1, since "
        "one random layer of attention has Ky among its terms."
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
        settings = (
            f"{steps} steps, {prompts} prompts of {prompt.supports} supports, a quarter scored"
        )
        axes = Axes("", "mean cosine, 95 % interval", log_y=False, bars="beside")
        return Outcome(settings, np.array(collected), bars(whole, new), axes)


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
