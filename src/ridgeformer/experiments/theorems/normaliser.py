"""The normaliser of a softmax head: what multiplying it back costs in floating point."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, SoftmaxAttention
from ridgeformer.compiler.job import Dtype
from ridgeformer.experiments.theorems.base import (
    DOMINATES,
    SOFTMAX,
    Axes,
    Measurement,
    Outcome,
    Theorem,
)
from ridgeformer.experiments.theorems.cases import compiled, two_ends
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import GradientDescent
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Record

REACH = 0.1
"""Round-off adds up as if at random, the bound as if it conspired."""


class Normaliser(Theorem):
    name = "normaliser"
    group = SOFTMAX
    title = "Multiplying softmax's normaliser back costs a few units of Σ K|v|"
    states = ("normaliser", "reciprocals")
    measured = (
        "One mat-vec of compiled models in float32, against the kernel in float64, over Σ K|v|; in float64, with "
        "the largest logits, against thirty digits. Each term of the bound is nearly all of it on some prompts: "
        "the sums, for 200 supports in one place, and the logits. The reciprocal is compared alone."
    )
    see = "Error of a compiled mat-vec, over Σ K|v|, against temperature: it rises with the logits, as the bound does."
    attained = REACH

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 32 if fast else 128
        temperatures = np.geomspace(0.2, 40, 4 if fast else 9).tolist()
        for temperature in temperatures:
            case = Mixed(two_ends(prompts, 3, 1, 1.0, seed), temperature, "float32")
            error, bound = case.run(m)
            m.at(
                "measured",
                temperature,
                error / case.weighted,
                bound / case.weighted,
                reach=REACH / 2,
            )
        Mixed(in_one_place(prompts, 200, seed), 1.0, "float32").judge(m, "sums")
        Mixed(one_support(prompts, seed), 0.0295, "float64").judge(m, "logits")
        settings = f"{len(temperatures)} temperatures, {prompts} prompts of 3 supports, of 200 in one place and of 1"
        axes = Axes("temperature τ, with |φ| ≤ 1", "|fl(D·o) − Kv| / Σ K|v|", log_x=True)
        return m.outcome(settings, axes)


class Held(NamedTuple):
    """What a compiled model of one mat-vec holds, in float64."""

    sink: Tensor
    """1/D at the queries."""
    normaliser: Tensor
    """D at the queries, from the reciprocal."""
    alpha: Tensor
    predictions: Tensor


class Mixed:
    """One mat-vec of a compiled model on prompts whose entries its numbers represent."""

    def __init__(self, prompt: Prompt, temperature: float, dtype: Dtype) -> None:
        self.prompt = prompt.to(getattr(torch, dtype)).to(torch.float64)
        self.temperature, self.dtype = temperature, dtype
        to = SoftmaxAttention(1.0, prompt.supports)
        kernel = Exponential(temperature)
        model = compiled(GradientDescent(), self.prompt, to, kernel=kernel, dtype=dtype)
        self.held = held(model, self.prompt, getattr(torch, dtype))
        self.weighted = self.mat_vec(self.held.alpha.abs())

    def mat_vec(self, v: Tensor) -> Tensor:
        """K v at the queries, with many more digits than the model has."""
        if self.dtype == "float32":
            kernel = theory.cross(self.prompt, Exponential(self.temperature))
            return (kernel @ v[:, :, None])[..., 0]
        return exact_mat_vec(self.prompt, self.temperature, v)

    def terms(self) -> dict[str, Tensor]:
        query, phi = self.prompt.phi_query.abs(), self.prompt.phi.abs()
        return theory.normaliser_terms(
            self.weighted,
            tokens=self.prompt.supports + 1,
            roundings=self.prompt.features + 2,
            logit=(query @ phi.mT).amax(-1) / self.temperature,
            unit=theory.UNIT[self.dtype],
        )

    def run(self, m: Measurement) -> tuple[Tensor, Tensor]:
        """The error of the mat-vec and its bound; the reciprocal is compared on the way."""
        lost = reciprocal_errors(self.held.sink, self.held.normaliser)
        allowed = theory.RECIPROCAL * theory.UNIT[self.dtype]
        m.compare(lost, allowed, part="reciprocal", reach=2 * REACH)
        error = (self.held.predictions - self.mat_vec(self.held.alpha)).abs()
        return error, sum(self.terms().values(), torch.zeros_like(self.weighted))

    def judge(self, m: Measurement, term: str) -> None:
        """Compares, and says how near the bound is reached where this term is nearly all of it."""
        error, bound = self.run(m)
        m.compare(error, bound)
        mine = self.terms()[term] >= DOMINATES * bound
        m.compare(error[mine], bound[mine], part=term, reach=REACH)


def in_one_place(prompts: int, supports: int, seed: int) -> Prompt:
    """Supports and query at 0, of one target in each prompt: all terms of a sum are rounded to the same side."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(prompts, 1, 1, generator=generator, dtype=torch.float64)
    nowhere = torch.zeros(prompts, supports, 1, dtype=torch.float64)
    return Prompt(nowhere, y.expand(-1, supports, -1), nowhere[:, :1])


def one_support(prompts: int, seed: int) -> Prompt:
    """One support near the end of the domain, and queries near it: the largest logits."""
    generator = torch.Generator().manual_seed(seed)
    points = 0.02 * torch.rand(prompts, 9, 3, generator=generator, dtype=torch.float64)
    points[..., 0] = 0.999 - points[..., 0]
    y = torch.randn(prompts, 1, 1, generator=generator, dtype=torch.float64)
    return Prompt(points[:, :1], y, points[:, 1:])


def exact_mat_vec(prompt: Prompt, temperature: float, v: Tensor) -> Tensor:
    """K v at the queries for one support, rounded once at the end.

    The temperature that a model has is 1/τ as a number of its weights; that rounding is one of those counted.
    """
    found = torch.zeros(prompt.phi_query.shape[:2], dtype=torch.float64)
    with localcontext() as context:
        context.prec = 40
        for row in range(len(prompt)):
            phi = [Decimal(x) for x in prompt.phi[row, 0].tolist()]
            for at, query in enumerate(prompt.phi_query[row].tolist()):
                score = sum(Decimal(x) * own for x, own in zip(query, phi, strict=True))
                weight = (score / Decimal(temperature)).exp()
                found[row, at] = float(weight * Decimal(float(v[row, 0])))
    return found


def reciprocal_errors(numbers: Tensor, reciprocals: Tensor) -> np.ndarray:
    """|x·x̂⁻¹ − 1|, without a rounding."""
    pairs = zip(numbers.flatten().tolist(), reciprocals.flatten().tolist(), strict=True)
    return np.array([float(abs(Fraction(x) * Fraction(z) - 1)) for x, z in pairs])


def held(model: CompiledModel, prompt: Prompt, dtype: torch.dtype) -> Held:
    layers = model.sites["layers"]
    (sink,) = [
        (f"blocks.{layer}.resid_mid", head["writes"][-1])
        for layer, does in enumerate(layers)
        for head in does["attention"]
        if "normaliser" in head.get("roles", ())
    ]
    *_, normaliser = [
        (f"blocks.{layer}.resid_post", what["writes"][0])
        for layer, does in enumerate(layers)
        for what in does["mlp"]
        if what["does"] == "D"
    ]
    predictions, alpha = (
        (at["site"], at["columns"][0])
        for at in (model.sites["predictions"][-1], model.sites["states"]["alpha"][-1])
    )
    sites = (sink, normaliser, alpha, predictions)
    record = Record.of(site for site, _ in sites)
    tokens, context = model.sequence(prompt)
    with torch.inference_mode():
        model.transformer.residual_stream(tokens.to(dtype), context, [record])
    whole = [record.values[site][..., column].double() for site, column in sites]
    asked = [x[:, context:] for x in whole]
    return Held(asked[0], asked[1], whole[2][:, : prompt.supports], asked[3])
