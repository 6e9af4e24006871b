"""Causal decoders: CG in feature space at one token or at every prefix, and why supports cannot do it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, Exact, LinearAttention
from ridgeformer.experiments.theorems.base import (
    COMPILED,
    RATES,
    Axes,
    Measurement,
    Outcome,
    Theorem,
)
from ridgeformer.experiments.theorems.cases import compiled, prediction_errors
from ridgeformer.experiments.theorems.depth import STEPS
from ridgeformer.experiments.theorems.hard import NEARLY, hard_for_feature_space, met
from ridgeformer.experiments.theorems.structure import random_models
from ridgeformer.models import trajectory
from ridgeformer.models.compiled import Sequence, streams
from ridgeformer.solvers import ConjugateGradient, GradientDescent, Solver, krr
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.transformer import Transformer


def prefix_errors(model: CompiledModel, prompt: Prompt) -> Tensor:
    """|f_t − f*| of every step and prefix, in the order of `theory.prefix_prompts`."""
    ridge = model.certificate.ridge
    assert ridge is not None, "a smoother approaches no ridge regression"
    exact = krr(theory.prefix_prompts(prompt), ridge=ridge)
    found = trajectory(model, prompt, prefixes=True).predictions[:, :, : prompt.supports + 1]
    return (found.flatten(1, 2)[:, :, None] - exact).abs()


def beyond_the_dual_bound() -> tuple[Prompt, float, int]:
    """A prompt, λ and the step after which CG in feature space exceeds the bound of the dual system."""
    root = torch.tensor([18.5, 11.85, 0.06], dtype=torch.float64).sqrt()
    y = torch.tensor([0.4, 0.5, 1.0], dtype=torch.float64)
    query = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    return Prompt(root.diag()[None], y[None, :, None], query[None, None]), 2.0, 2


class FeatureCGRate(Theorem):
    name = "feature-cg-rate"
    group = RATES
    title = "In feature space, at every prefix, CG has a bound of its own"
    states = ("feature-conjugate-gradients",)
    measured = (
        "The predictions are those that compiled decoders hold after t steps: one that solves at the token "
        "after the supports, and one that solves every prefix, at each of its prefixes. A dual bound that held "
        "on the remark's example would count as a violation."
    )
    see = (
        "Largest error over all prefixes: it stays under the dotted bound, which each step's hardest spectrum "
        "meets within a factor of two. The example's error is above the bound of the dual system at step 2."
    )

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = (6, 8) if fast else (10, 64)
        m = Measurement()

        def run(name: str, prompt: Prompt, top: float, floor: float) -> None:
            one = compiled(
                ConjugateGradient(), prompt, LinearAttention(top, causal=True), steps=steps
            )
            bound = theory.feature_cg_prediction_bound(prompt, ridge=1.0, steps=steps)
            m.compare(prediction_errors(one, prompt)[1:], bound[1:], floor, part=name, reach=0.1)
            target = LinearAttention(top, Exact(), causal=True, every_prefix=True)
            every = compiled(ConjugateGradient(), prompt, target, steps=steps)
            prefixes = theory.prefix_prompts(prompt)
            bound = theory.feature_cg_prediction_bound(prefixes, ridge=1.0, steps=steps)
            # On random prompts CG ends sooner than the bound says, so that no step alone comes near it.
            errors = prefix_errors(every, prompt)
            m.by_step(f"{name}, every prefix", errors, bound, floor, whole=True, reach=0.1)

        for condition in (10.0, 100.0, 1000.0):
            task = PrescribedSpectrum(features=8, supports=20, condition=condition)
            prompt = task.draw(prompts, seed)
            floor = 1e-10 * float(krr(prompt, ridge=1.0).abs().max())
            run(f"κ = {condition:g}", prompt, task.max_eigenvalue, floor)
            for t in range(1, steps + 1):
                hardest(m, condition, t, seed)
        self.measure_example(m)
        settings = (
            f"3 condition numbers, {prompts} prompts of 20 pairs and all their prefixes, {steps} steps; for each "
            "of them and each step the spectrum that is hardest for it; the example of the remark"
        )
        return m.outcome(settings, STEPS)

    def measure_example(self, m: Measurement) -> None:
        prompt, ridge, step = beyond_the_dual_bound()
        target = LinearAttention(20.0, Exact(), causal=True, every_prefix=True)
        model = compiled(ConjugateGradient(), prompt, target, steps=3, ridge=ridge)
        error = prediction_errors(model, prompt)
        bound = theory.feature_cg_prediction_bound(prompt, ridge=ridge, steps=3)
        # It ends with step 3; what it must exceed is the bound of the dual system, below.
        m.by_step("example", error, bound, 1e-12, whole=True)
        dual = theory.cg_prediction_bound(prompt, ridge=ridge, steps=3)
        # It must fail there: that it does not would count as 2.
        m.count(2.0 * (dual[step] >= error[step]).double())
        for t, at_step in enumerate(dual):
            m.draw_bound("example", t, at_step, said="bound of the dual system")


def hardest(m: Measurement, condition: float, steps: int, seed: int) -> None:
    """The last of these steps on the spectrum that is worst for it, by both kinds of decoder."""
    smallest, largest = 1.0, 2 * condition - 1
    prompt = hard_for_feature_space(smallest, largest, steps, 2, seed)
    bound = theory.feature_cg_prediction_bound(prompt, ridge=1.0, steps=steps)[-1]
    kinds = {
        "one token": LinearAttention(largest, causal=True),
        "every prefix": LinearAttention(largest, Exact(), causal=True, every_prefix=True),
    }
    for kind, to in kinds.items():
        model = compiled(ConjugateGradient(), prompt, to, steps=steps)
        error, name = prediction_errors(model, prompt)[-1], f"hardest, κ = {condition:g}, {kind}"
        m.at(name, steps, error, bound, 1e-9, each=True, reach=NEARLY * met(condition, steps))


class CausalSupports(Theorem):
    name = "causal-supports"
    group = COMPILED
    title = "Under a causal mask, a support cannot hold its entry of the dual iterate"
    states = ("causal-supports",)
    measured = (
        "The first entry of the dual iterate is fitted, by least squares, to everything that the first "
        "support holds at any sublayer, on both prompts of the example and for transformers with a causal mask: "
        "random ones, and the decoders that CG compiles to. The largest error must be what the theorem says."
    )
    see = "The best that can be read off a causal support is off by 1/12, then 1/6; without the mask it is exact."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompt, other = 6, *two_prompts()
        m = Measurement()

        def least(solver: Solver) -> Tensor:
            return theory.causal_support_error(solver, prompt, other, ridge=1.0, steps=steps)

        cg = least(ConjugateGradient())[:, 0, 0, 0]
        m.compare(cg[1:], np.array([1 / 12] + [1 / 6] * (steps - 1)))
        step = 0.5  # η for the interval [1, 3], which holds A's eigenvalues
        m.compare(least(GradientDescent(interval=(1.0, 3.0)))[2, 0, 0], step**2 / 2)
        entries = np.array([[1 / 2] + [2 / 3] * (steps - 1), [1 / 3] * steps])
        plain = [(given.tokens(), given.supports + 1) for given in (prompt, other)]
        drawn = random_models(plain[0][0].shape[-1], seed)
        tried = [(transformer, plain, 0) for transformer in drawn]
        for model, support in decoders(prompt, steps):
            sequences = [model.sequence(given) for given in (prompt, other)]
            tried.append((model.transformer, sequences, support))
        for transformer, sequences, support in tried:
            errors = readout_errors(transformer, sequences, support, entries)
            causal = transformer.config.mask == "causal"
            name = "causal mask" if causal else "prefix mask (control)"
            for t, error in enumerate(errors, start=1):
                m.draw(name, t, error)
                if causal:
                    m.compare(error, cg[t])
                    m.draw_bound(name, t, float(cg[t]), said="least")
        settings = f"{len(drawn)} random transformers and 2 compiled ones, {steps} steps of CG"
        return m.outcome(settings, Axes("step", "error of the best readout"))


def two_prompts() -> tuple[Prompt, Prompt]:
    """Two supports that are alike, with targets that differ at the second alone."""
    phi = torch.ones(1, 2, 1, dtype=torch.float64)
    targets = ([1.0, 0.0], [1.0, 1.0])
    pair = [Prompt(phi, torch.tensor(y, dtype=torch.float64)[None, :, None], phi) for y in targets]
    return pair[0], pair[1]


def decoders(prompt: Prompt, steps: int) -> list[tuple[CompiledModel, int]]:
    """CG compiled to one token after the supports, and to every prefix; and where the first support is."""
    one = LinearAttention(2.0, causal=True)
    every = LinearAttention(2.0, Exact(), causal=True, every_prefix=True)
    return [
        (compiled(ConjugateGradient(), prompt, to, steps=steps), support)
        for to, support in ((one, 0), (every, 1))
    ]


def readout_errors(
    transformer: Transformer, sequences: list[Sequence], support: int, entries: np.ndarray
) -> np.ndarray:
    """The largest error of the best linear readout of one support's states, for each step.

    `entries` [2, steps] has what is to be read on each of the two prompts.
    """
    states = [
        torch.cat([x[0, support] for x in streams(transformer, sequence).values()])
        for sequence in sequences
    ]
    design = torch.stack(states).numpy()
    weights = np.linalg.pinv(design, rcond=1e-9) @ entries
    errors: np.ndarray = np.abs(design @ weights - entries).max(0)
    return errors
