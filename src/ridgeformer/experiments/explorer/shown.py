"""The models that the explorer shows: compiled when the page is built, or shipped, and what is said of them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, SoftmaxAttention
from ridgeformer.compiler import compile as compile_solver
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear
from ridgeformer.models import zoo
from ridgeformer.models.reference import interval_of
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    GradientDescent,
    IterativeNewton,
    NadarayaWatson,
    Richardson,
    Solver,
)
from ridgeformer.theory.sensitivity import residual_polynomials

RIDGE = 0.72
"""The λ of models on the linear kernel: that for which the shipped model `linear` was trained."""
MOST_EIGENVALUE = 1000.0
RIDGES = (0.01, 0.1, 1.0)
"""The λ that models with softmax attention are compiled for, each in a file of its own."""
MOST_SUPPORTS = 64
MOST_STEPS = 64
"""A looped model is run for up to this many steps."""
WAVES, PLANE = 8, 2
"""The numbers of features."""


@dataclass(frozen=True)
class World:
    """A kernel with the λ that its models know. The page scales features for other widths and temperatures."""

    kernel: Kernel
    ridges: tuple[float, ...]
    longest: float | None = None
    """Models with softmax attention take features up to this norm."""


WORLDS = {
    "waves": World(Linear(), (RIDGE,)),
    "smooth": World(Gaussian(0.5), RIDGES, longest=2.5),
    "circle": World(Exponential(1.0), RIDGES, longest=1.6),
}


@dataclass(frozen=True)
class Compiled:
    """A solver that is compiled when the page is built, once for each λ of its world."""

    name: str
    label: str
    world: str
    about: str
    solver: Solver
    steps: int | None
    looped: bool = False
    every_prefix: bool = False
    conjugate: bool = False
    """Its coefficients follow the data, and so does its bound."""
    trained = False

    def ridges(self) -> tuple[float | None, ...]:
        return (None,) if self.solver.smooths else WORLDS[self.world].ridges

    def compile(self, ridge: float | None) -> CompiledModel:
        world = WORLDS[self.world]
        to: LinearAttention | SoftmaxAttention
        if world.longest is None:
            products = Exact() if self.every_prefix else None
            decoder = self.every_prefix
            to = LinearAttention(MOST_EIGENVALUE, products, causal=decoder, every_prefix=decoder)
        else:
            to = SoftmaxAttention(
                max_norm=world.longest, max_supports=MOST_SUPPORTS, products=Exact()
            )
        return compile_solver(
            self.solver,
            features=WAVES if world.longest is None else PLANE,
            steps=self.steps,
            ridge=ridge,
            kernel=world.kernel,
            to=to,
            looped=self.looped,
        )

    def files(self) -> Iterator[dict[str, Any]]:
        for ridge in self.ridges():
            model = self.compile(ridge)
            with TemporaryDirectory() as directory:
                model.save(Path(directory) / "model")
                yield {
                    "ridge": ridge,
                    "bound": self.bound(model),
                    **packed(Path(directory) / "model"),
                }

    def bound(self, model: CompiledModel) -> dict[str, Any] | None:
        """The factor of each step in the theorems on depth, or what the reader's data make of it."""
        if self.solver.smooths:
            return None
        if self.conjugate:
            return {"factors": None}  # the page takes them from the condition number of the prompt
        certificate = model.certificate
        lo, hi = interval_of(model)
        values = np.concatenate([np.geomspace(lo, hi, 2000), np.linspace(lo, hi, 2000)])
        polynomials = residual_polynomials(
            self.solver,
            values,
            steps=MOST_STEPS if self.looped else certificate.steps,
            tuned=(lo, hi),
            ridge=float(certificate.ridge or 0),
        )
        return {"factors": [float(f) for f in np.abs(polynomials).max(1)]}


@dataclass(frozen=True)
class Trained:
    """A shipped model that was trained."""

    name: str
    label: str
    world: str
    about: str
    ridge: float
    """The λ of the best predictor on the task that it was trained on."""
    trained = True

    def files(self) -> Iterator[dict[str, Any]]:
        yield {"ridge": self.ridge, "bound": None, **packed(zoo.path_of(self.name))}


def packed(directory: Path) -> dict[str, Any]:
    """Both files of a saved model: the config as it is, the weights compressed."""
    weights = gzip.compress((directory / "model.safetensors").read_bytes(), mtime=0)
    config = json.loads((directory / "config.json").read_text())
    return {"config": config, "weights": base64.b64encode(weights).decode()}


CG = (
    "Conjugate gradients: every step measures the data, through sums at the aggregator, and "
    "takes the best step of its kind. Its weights know λ, and nothing of your examples."
)
SMOOTHER = (
    "One attention head by itself is a weighted mean of labels, the Nadaraya-Watson smoother. It "
    "solves no system, so it does not tend to the dashed curve."
)
MODELS: tuple[Compiled | Trained, ...] = (
    Compiled("cg", "Conjugate gradients", "waves", CG, ConjugateGradient(), 10, conjugate=True),
    Compiled(
        "chebyshev", "Chebyshev iteration", "waves",
        "Chebyshev iteration: its coefficients are fixed in the weights, and tuned to all kernel matrices "
        "that the model accepts. So it is slower than conjugate gradients, and linear in the labels.",
        Chebyshev(), 60,
    ),
    Compiled(
        "gd", "Gradient descent", "waves",
        "Gradient descent: one layer that is applied again and again. Choose the number of steps.",
        GradientDescent(), None, looped=True,
    ),
    Compiled(
        "newton", "Newton's iteration", "waves",
        "Newton's iteration: every token holds the image of its features under an approximate inverse, "
        "and the number of correct digits doubles from layer to layer.",
        IterativeNewton(), 12,
    ),
    Compiled(
        "decoder", "CG in a decoder", "waves",
        "A decoder with a causal mask: its tokens are a place, then the place with its label, and so on. At every place it "
        "runs conjugate gradients on the pairs before it, all in one pass. The rings are its predictions at your "
        "examples, each made before it saw that label; the curve is its answer after all of them.",
        ConjugateGradient(), 8, every_prefix=True, conjugate=True,
    ),
    Compiled(
        "cg-smooth", "Conjugate gradients", "smooth", CG, ConjugateGradient(), 10, conjugate=True
    ),
    Compiled(
        "chebyshev-smooth", "Chebyshev iteration", "smooth",
        "Chebyshev iteration on the Gaussian kernel: one softmax head a layer, whose normalisation is the "
        "preconditioner.",
        Chebyshev(precondition="row-sum"), 40,
    ),
    Compiled(
        "richardson-smooth", "Richardson iteration", "smooth",
        "Richardson iteration on the Gaussian kernel: one softmax head a layer, whose normalisation is the "
        "preconditioner. Small λ and many examples need many layers.",
        Richardson(precondition="row-sum"), 48,
    ),
    Compiled("nw-smooth", "One head: smoothing", "smooth", SMOOTHER, NadarayaWatson(), None),
    Compiled(
        "cg-circle", "Conjugate gradients", "circle", CG, ConjugateGradient(), 10, conjugate=True
    ),
    Compiled("nw-circle", "One head: smoothing", "circle", SMOOTHER, NadarayaWatson(), None),
    Trained(
        "linear", "Linear regression", "waves",
        "A softmax transformer of 8 layers that was trained on random linear functions of eight features. "
        "It has never seen waves.",
        RIDGE,
    ),
    Trained(
        "linear-attention", "With linear attention", "waves",
        "A transformer of 4 layers with linear attention and no MLP, trained on random linear functions of "
        "eight features with up to 32 examples. With many more its numbers grow beyond all bounds.",
        RIDGE,
    ),
    Trained(
        "gp", "Smooth functions", "smooth",
        "A softmax transformer of 8 layers that was trained on Gaussian processes in the plane, with λ = 0.1 and "
        "width 0.5. Other settings are new to it.",
        0.1,
    ),
)  # fmt: skip


def payload() -> dict[str, Any]:
    """All that the page holds of its models, as plain data."""
    return {
        "most": MOST_SUPPORTS,
        "worlds": {
            name: {"kernel": described(world.kernel), "ridges": world.ridges}
            for name, world in WORLDS.items()
        },
        "models": [
            {
                "name": shown.name, "label": shown.label, "world": shown.world,
                "about": shown.about, "trained": shown.trained, "files": list(shown.files()),
            }
            for shown in MODELS
        ],
    }  # fmt: skip


def described(kernel: Kernel) -> dict[str, Any]:
    numbers = {field.name: getattr(kernel, field.name) for field in fields(kernel)}  # type: ignore[arg-type]
    return {"name": kernel.name, **{k: v for k, v in numbers.items() if v is not None}}
