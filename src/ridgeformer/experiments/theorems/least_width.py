"""Lower bounds on the width of any model, beside the widths of compiled ones."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.theorems.base import SIZES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.sizes import same
from ridgeformer.experiments.theorems.structure import random_model
from ridgeformer.solvers import Chebyshev, GradientDescent, HeavyBall, Solver, krr
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer

RIDGE, TOP = 1.0, 20.0
MET = 0.999
"""What the case of equality must reach."""

METHODS: tuple[tuple[Solver, bool], ...] = (
    (GradientDescent(), False), (Chebyshev(), True), (HeavyBall(), True),
)  # fmt: skip
"""Each with whether a step reads the iterate before the last."""

KINDS = ({"attention": "linear", "mask": "prefix"}, {"attention": "softmax", "mask": "causal"})


class LeastWidth(Theorem):
    name = "least-width"
    group = SIZES
    title = "A narrower stream cannot tell supports apart"
    states = ("least-width",)
    measured = (
        "Random transformers of p + r − 1 channels are given two prompts that differ in what their embedding loses: "
        "their predictions are the same, and on one of the prompts off by what the theorem says or more, which a "
        "readout of the mean meets. The rank of later predictions in what a support holds is computed from the "
        "recurrence; compiled models are at least as wide."
    )
    see = "Channels of compiled models over the number of features, and the least that any model with their states can have."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m = Measurement()
        for p, r in ((1, 1), (3, 1), (2, 3)):
            for kind in KINDS:
                width = {"d_model": p + r - 1, "d_out": r}
                compare_narrow(m, random_model(p + r + 3, seed, kind | width), p, r, seed)
        for solver, remembers in METHODS:
            for p, r in ((1, 1), (3, 2)) if fast else ((1, 1), (3, 2), (5, 1), (4, 4)):
                least = theory.semi_iteration_least_width(p, r, remembers=remembers)
                for supports in (1, 5):
                    found = theory.future_rank(
                        solver, drawn(p, r, supports, seed), ridge=RIDGE, interval=(RIDGE, RIDGE + TOP), seed=seed
                    )  # fmt: skip
                    m.count(same(found, least), part=f"rank, {solver.name}", reach=MET)
            for p in (2, 4, 8):
                model = compile(solver, features=p, steps=3, ridge=RIDGE, to=LinearAttention(TOP))
                width_of = model.transformer.config.d_model
                least = theory.semi_iteration_least_width(p, 1, remembers=remembers)
                m.compare(least, width_of)
                m.draw(solver.name, p, width_of)
                m.draw_bound(solver.name, p, least, "least")
        settings = "6 random transformers, 3 solvers, prompts of 1 and 5 supports"
        return m.outcome(settings, Axes("features p", "channels", log_y=False))


def drawn(features: int, outputs: int, supports: int, seed: int) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((supports, features), (supports, outputs), (features, features))
    phi, y, query = (
        torch.randn(1, *shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    return Prompt(phi, y, query)


def indistinct(weights: Tensor, prompt: Prompt) -> Prompt:
    """The prompt with its first support moved along what an embedding with these weights loses."""
    change = theory.unseen_direction(weights)
    phi, y = prompt.phi.clone(), prompt.y.clone()
    phi[:, 0] += change[: prompt.features]
    y[:, 0] += change[prompt.features :]
    return Prompt(phi, y, prompt.phi_query)


def compare_narrow(m: Measurement, model: Transformer, p: int, r: int, seed: int) -> None:
    prompt = drawn(p, r, 4, seed)
    other = indistinct(model.embed.W.detach()[: p + r], prompt)
    least = theory.indistinct_error(prompt, other, ridge=RIDGE)
    exact = [krr(given, ridge=RIDGE) for given in (prompt, other)]
    with torch.no_grad():
        found = [model(given.tokens(), 5) for given in (prompt, other)]
    m.compare((found[0] - found[1]).abs(), 1e-9 * (1 + found[0].abs()))
    worst = torch.maximum(*((a - b).abs() for a, b in zip(found, exact, strict=True)))
    m.compare(least, worst)
    mean = (exact[0] + exact[1]) / 2
    met = torch.maximum(*((mean - value).abs() for value in exact))
    m.compare(least, met, 1e-9, part="two prompts, one state", reach=MET)
