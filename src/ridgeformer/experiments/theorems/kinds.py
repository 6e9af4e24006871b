"""Every kind of compiled model, one case of each: what theorems about all of them are measured on.

Two models are of one kind if they agree in what `kind_of` says of them. The catalogue has many models of
each kind, and a test checks that it has none of a kind that is missing here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.compiler import (
    CompiledModel,
    Exact,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
)
from ridgeformer.compiler.catalogue import MAX_NORM, MAX_TARGET, TOLERANCE
from ridgeformer.compiler.targets import Target
from ridgeformer.experiments.theorems.cases import MAX_SUPPORTS, Case
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.models import reference, trajectory
from ridgeformer.models.reference import interval_of, kernel_of, ridge_of, solver_of
from ridgeformer.solvers import (
    ConjugateGradient,
    IterativeNewton,
    NadarayaWatson,
    Richardson,
    Solver,
    solve,
)
from ridgeformer.tasks import Prompt

TOP = MAX_SUPPORTS * MAX_NORM**2


class KindOfModel(NamedTuple):
    """What tells one kind of compiled model from another."""

    attention: str
    reads: str
    """Which tokens a token reads, and whether every prefix is solved."""
    space: str
    """Where iterates live: dual, feature, or operator, which needs registers."""
    products: str
    """How a token multiplies: not at all or by a table, by a gated MLP, or interpolated."""
    kernel: str
    looped: bool


def kind_of(model: CompiledModel) -> KindOfModel:
    certificate, config = model.certificate, model.transformer.config
    reads = "every prefix" if certificate.every_prefix else config.mask
    products = "interpolated" if certificate.absolute_error is not None else config.mlp
    return KindOfModel(
        config.attention,
        reads,
        certificate.space,
        products,
        certificate.kernel["name"],
        certificate.looped,
    )


def families() -> dict[str, tuple[Solver, Target, tuple[Kernel, ...], bool]]:
    """By name the solver, the target, the kernels, and whether each is also compiled as a loop.

    Conjugate gradients use every part of a construction; others stand where those do not compile.
    """
    cg, every = ConjugateGradient(), LinearAttention(TOP, Exact(), causal=True, every_prefix=True)
    tabled = Interpolated(MAX_TARGET, tolerance=TOLERANCE)
    softmax, interpolated, digits = (
        SoftmaxAttention(MAX_NORM, MAX_SUPPORTS, products)
        for products in (Exact(), tabled, replace(tabled, digits=True))
    )
    linear, dots = (Linear(),), (Linear(), Polynomial(2))
    exponentials: tuple[Kernel, ...] = (Exponential(), Gaussian())
    newton, plain = IterativeNewton(), IterativeNewton(plain=True)
    return {
        "linear attention": (cg, LinearAttention(TOP), linear, True),
        "linear attention, gated": (cg, LinearAttention(TOP, Exact()), dots, True),
        "causal": (cg, LinearAttention(TOP, causal=True), linear, True),
        "causal, gated": (cg, LinearAttention(TOP, Exact(), causal=True), dots, True),
        "every prefix": (cg, every, dots, False),
        "registers": (newton, LinearAttention(TOP), linear, False),
        "registers, gated": (newton, LinearAttention(TOP, Exact()), dots, False),
        "registers, plain": (plain, LinearAttention(TOP), linear, True),
        "softmax attention": (cg, softmax, exponentials, True),
        "dot products from softmax heads": (cg, softmax, dots, True),
        "interpolated": (Richardson("row-sum"), interpolated, exponentials, False),
        "digits": (Richardson("row-sum"), digits, exponentials, False),
        "one softmax head": (
            NadarayaWatson(),
            SoftmaxAttention(MAX_NORM, products=None),
            exponentials,
            False,
        ),
    }


def kinds() -> dict[str, Case]:
    """Every kind of compiled model by name, and what compiles beside: float32, outputs, projections."""
    cases = {}
    for name, (solver, to, kernels, loops) in families().items():
        for kernel in kernels:
            label = name if kernel == kernels[0] else f"{name}, {kernel.label}"
            fitting = to
            if isinstance(to, LinearAttention):
                fitting = replace(to, max_eigenvalue=MAX_SUPPORTS * kernel.range(MAX_NORM).most)
            cases[label] = Case(solver, kernel, fitting)
            if loops:
                cases[f"{label}, looped"] = replace(cases[label], looped=True, models={})
    linear, softmax = cases["linear attention"], cases["softmax attention"]
    rows = torch.linalg.qr(torch.arange(1.0, 9.0, dtype=torch.float64).view(4, 2) % 3 + 1).Q.mT
    several = {
        "float32": {"dtype": "float32"},
        "two outputs": {"outputs": 2},
    }
    for what, options in several.items():
        for name in (
            "linear attention",
            "causal",
            "every prefix",
            "registers",
            "softmax attention",
        ):
            if (name, what) != ("softmax attention", "float32"):
                cases[f"{name}, {what}"] = replace(cases[name], models={}, **options)  # type: ignore[arg-type]
    cases["softmax attention, float32"] = replace(
        softmax, solver=Richardson("row-sum"), dtype="float32", models={}
    )
    cases["linear attention, projected"] = replace(linear, kernel=Linear(rows), models={})
    cases["softmax attention, projected"] = replace(
        softmax, kernel=Exponential(1.0, rows), models={}
    )
    return {name: replace(case, called=name) for name, case in cases.items()}


def held(model: CompiledModel, prompt: Prompt, steps: int | None = None) -> Tensor:
    """What the model predicts after every step, in float64: [steps + 1, batch, q, r].

    One that solves every prefix has each of them as a prompt of its own, in the order of
    `theory.prefix_prompts`.
    """
    if not model.certificate.every_prefix:
        return trajectory(model, prompt, steps=steps).predictions.double()
    found = trajectory(model, prompt, prefixes=True).predictions[:, :, : prompt.supports + 1]
    return found.double().flatten(1, 2)[:, :, None]


def expected(model: CompiledModel, prompt: Prompt, steps: int | None = None) -> Tensor:
    """What the model should hold, in float64.

    In feature space a method with inner products has iterates of its own: those of the system ΦᵀΦ + λI
    with the right side Φᵀy, whose prediction is φ(x)ᵀw.
    """
    prompt, certificate = prompt.to(torch.float64), model.certificate
    if certificate.space != "feature":
        return reference(model, prompt, steps=steps).predictions
    features = theory.prefix_prompts if certificate.every_prefix else theory.in_features
    given = features(prompt, kernel_of(model))
    across = Prompt(given.phi.mT, given.phi.mT @ given.y, given.phi.mT[:, :1])
    run = solve(
        solver_of(model), across, steps=certificate.at(steps).steps, ridge=ridge_of(model),
        interval=interval_of(model), states=True,
    )  # fmt: skip
    return given.phi_query @ run.states["alpha"]
