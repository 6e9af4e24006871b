"""Sizes of compiled models: the laws of the main constructions, counted on compiled models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from ridgeformer import theory
from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.compiler.targets import Target
from ridgeformer.experiments.theorems.base import SIZES, Axes, Measurement, Outcome, Theorem
from ridgeformer.kernels import Exponential, Kernel, Linear
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, HeavyBall, Solver

TOP = 20.0
"""The bound on λ_max(K): no law depends on it."""

PLAIN, GATED = LinearAttention(TOP), LinearAttention(TOP, products=Exact())
EVERY_PREFIX = LinearAttention(TOP, products=Exact(), causal=True, every_prefix=True)


@dataclass(frozen=True)
class Law:
    """One construction, and what is said of its size."""

    solver: Solver
    to: Target
    size: Callable[[int, int, int], dict[str, int]]
    """From features, outputs and steps to entries of the model's config."""
    kernel: Kernel
    one_matvec_a_step: bool = False
    """Whether each step has one mat-vec head, which writes all outputs."""

    @property
    def label(self) -> str:
        attention = "linear" if isinstance(self.to, LinearAttention) else "softmax"
        if isinstance(self.to, LinearAttention) and self.to.every_prefix:
            attention += " (every prefix)"
        return f"{self.solver.name}, {attention} attention" + (", gated" if self.gated else "")

    @property
    def gated(self) -> bool:
        return isinstance(self.to.products, Exact)

    def compile(self, features: int, outputs: int, steps: int) -> CompiledModel:
        return compile(
            self.solver, features=features, outputs=outputs, steps=steps, ridge=1.0,
            kernel=self.kernel, to=self.to,
        )  # fmt: skip


def fixed(solver: Solver, to: LinearAttention, remembers: bool) -> Law:
    size = partial(theory.semi_iteration_size, remembers=remembers, gated=to.products is not None)
    return Law(solver, to, size, Linear())


def laws() -> list[Law]:
    return [
        Law(ConjugateGradient(), PLAIN, theory.cg_linear_size, Linear(), one_matvec_a_step=True),
        Law(ConjugateGradient(), GATED, theory.cg_linear_size, Linear(), one_matvec_a_step=True),
        Law(
            ConjugateGradient(), SoftmaxAttention(1.0, 16), theory.cg_softmax_size, Exponential(1.0)
        ),
        Law(ConjugateGradient(), EVERY_PREFIX, theory.cg_every_prefix_size, Linear()),
        fixed(GradientDescent(), PLAIN, remembers=False),
        fixed(GradientDescent(), GATED, remembers=False),
        fixed(Chebyshev(), PLAIN, remembers=True),
        fixed(Chebyshev(), GATED, remembers=True),
        fixed(HeavyBall(), PLAIN, remembers=True),
    ]


class Sizes(Theorem):
    name = "sizes"
    group = SIZES
    title = "Layers, channels, heads and parameters are what the laws say"
    states = ("sizes",)
    measured = (
        "Every number is counted on compiled models, the parameters from their weights, and must be exactly "
        "what the law says; so must the number of mat-vec heads of conjugate gradients, and how many "
        "outputs each of them writes."
    )
    see = (
        "Parameters of compiled models (markers) on the formula (dotted): every ratio is exactly 1."
    )
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        sizes = [(3, 1, 3), (4, 2, 5)] if fast else [(2, 3, 3), (4, 1, 4), (5, 2, 6), (9, 4, 3)]
        drawn = (4, 8) if fast else (4, 8, 12, 16)
        m = Measurement()
        for law in laws():
            for size in sizes:
                m.count(*compared(law, *size))
            for t in drawn:
                counted, formula = parameters_of(law.compile(4, 1, t), 4, 1, law.gated)
                m.count(same(counted, formula))
                m.draw(law.label, t, counted)
                m.draw_bound(law.label, t, formula, "formula")
        settings = f"{len(laws())} constructions, {len(sizes)} sizes of each"
        return m.outcome(settings, Axes("steps T", "parameters"))


def compared(law: Law, features: int, outputs: int, steps: int) -> list[float]:
    """Counted over predicted: the config, the parameters and the mat-vec heads."""
    model = law.compile(features, outputs, steps)
    config = model.transformer.config
    predicted = law.size(features, outputs, steps)
    ratios = [same(getattr(config, name), value) for name, value in predicted.items()]
    ratios.append(same(*parameters_of(model, features, outputs, law.gated)))
    if law.one_matvec_a_step:
        widths = matvec_widths(model)
        ratios += [same(len(widths), steps), *(same(width, outputs) for width in widths)]
    return ratios


def matvec_widths(model: CompiledModel) -> list[int]:
    """How many channels each mat-vec head writes."""
    return [len(head.writes) for head in model.heads(role="matvec")]


def parameters_of(
    model: CompiledModel, features: int, outputs: int, gated: bool
) -> tuple[int, int]:
    """Counted, and by the formula from the shape."""
    config = model.transformer.config
    shape = theory.Shape(*(getattr(config, name) for name in theory.Shape.__dataclass_fields__))
    counted = sum(weight.numel() for weight in model.transformer.parameters())
    inputs = features + outputs + 3
    return counted, theory.parameters(shape, inputs=inputs, outputs=outputs, gated=gated)


def same(counted: int, predicted: int) -> float:
    """The larger over the smaller: 1 if they agree, more than 1 if they do not."""
    if min(counted, predicted) == 0:
        return 1.0 if counted == predicted else inf
    return max(counted / predicted, predicted / counted)
