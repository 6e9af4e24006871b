"""Which changes of a prompt does a model ignore, as the best predictor does?

    order        the supports are permuted                            the prediction is the same
    rotation     Φ and x are rotated together                         the same, if K = ΦΦᵀ
    sign, scale  y is multiplied by c = −1, ½, 2                      c times the prediction

Each change has a control that breaks the symmetry: only the targets are permuted, only the supports are rotated,
only the first half of the targets is multiplied. The best predictor moves under a control, and so must the model. All
figures are mean squares relative to E f², f the model's own prediction for the prompts as they are.

Rotations are tried where the law of the prompts does not change, so that nothing leaves their distribution. A
larger scale of the features is no symmetry of ridge regression, since λ stays as it is; and it leaves the
distribution, as larger targets do. There the error against the best predictor says how far a model's
method reaches: E(f − f*)²/E f*², both for the changed prompts, at growth factors 1, 2, 4 and 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.models import Subject
from ridgeformer.statistics import Estimate, estimate_of
from ridgeformer.tasks import LearnableTask, Prompt, generator_of

FACTORS = (-1.0, 0.5, 2.0)
GROWTH = (1.0, 2.0, 4.0, 10.0)

Changed = tuple[Prompt, float]
"""A prompt, and the multiple of the old prediction that a symmetric model makes of it."""


@dataclass(frozen=True)
class Symmetry:
    """What a change does to a model, relative to E f²."""

    name: str
    change: Estimate
    """How far the prediction is from what the symmetry says."""
    control: Estimate
    """The same where the symmetry is broken."""
    best_control: Estimate
    """The same for the best predictor: how large the control ought to be."""


@dataclass(frozen=True)
class OutOfRange:
    """The error against the best predictor, relative to E f*², as inputs grow."""

    name: str
    factors: tuple[float, ...]
    errors: tuple[Estimate, ...]
    """Undefined where a prediction is not finite."""
    best_change: tuple[Estimate, ...]
    """How far the best predictor moves, divided by the factor for targets, relative to E f*² as it was: what a
    model that ignored the change would miss."""


@dataclass(frozen=True)
class Symmetries:
    """How a model answers prompts that were changed in ways that leave ridge regression as it is."""

    symmetries: tuple[Symmetry, ...]
    out_of_range: tuple[OutOfRange, ...]


def find_symmetries(
    subject: Subject,
    task: LearnableTask,
    *,
    prompts: int = 300,
    rotations: bool | None = None,
    seed: int,
) -> Symmetries:
    """The symmetries of a subject's predictions on prompts of the task.

    Rotations are tried if `rotations` says so; left out, they are tried where ridge regression on the raw
    features is the best predictor, whose prompts have random rotations.
    """
    prompt = task.draw(prompts, seed)
    generator = generator_of(seed, 2)
    rotations = task.ridge is not None if rotations is None else rotations
    changes: dict[str, tuple[Changed, Changed]] = {"order": orders(prompt, generator)}
    if rotations:
        changes["rotation"] = turns(prompt, generator)
    for c in FACTORS:
        changes[f"targets × {c:g}"] = multiples(prompt, c)
    own, best = subject.predict(prompt).double(), task.best(prompt)

    def measured(name: str, kept: Changed, broken: Changed) -> Symmetry:
        return Symmetry(
            name,
            moved(subject.predict, own, kept, seed),
            moved(subject.predict, own, broken, seed),
            moved(task.best, best, broken, seed),
        )

    return Symmetries(
        tuple(measured(name, *pair) for name, pair in changes.items()),
        tuple(out_of_range(subject, task, prompt, name, seed) for name in GROWN),
    )


def moved(
    predict: Callable[[Prompt], Tensor], before: Tensor, changed: Changed, seed: int
) -> Estimate:
    """E(f(changed)/c − f)²/E f²."""
    prompt, factor = changed
    return ratio(predict(prompt).double() / factor - before, before, seed)


def ratio(gap: Tensor, size: Tensor, seed: int) -> Estimate:
    squares = torch.stack([gap, size], 1).square().mean((2, 3))
    return estimate_of(squares, lambda means: means[:, 0] / means[:, 1], seed)


def orders(prompt: Prompt, generator: torch.Generator) -> tuple[Changed, Changed]:
    """The supports in another order; and their targets alone."""
    keys = torch.rand(prompt.y.shape[:2], generator=generator)
    order = keys.argsort(1)[..., None]
    phi, y = (t.take_along_dim(order, 1) for t in (prompt.phi, prompt.y))
    return (Prompt(phi, y, prompt.phi_query), 1), (Prompt(prompt.phi, y, prompt.phi_query), 1)


def turns(prompt: Prompt, generator: torch.Generator) -> tuple[Changed, Changed]:
    """Each prompt rotated; and its supports alone."""
    shape = (len(prompt), prompt.features, prompt.features)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(normal).Q.to(prompt.phi.dtype)
    phi, query = prompt.phi @ turn, prompt.phi_query @ turn
    return (Prompt(phi, prompt.y, query), 1), (Prompt(phi, prompt.y, prompt.phi_query), 1)


def multiples(prompt: Prompt, factor: float) -> tuple[Changed, Changed]:
    """All targets multiplied; and the first half of them alone."""
    some = torch.ones_like(prompt.y)
    some[:, : (prompt.supports + 1) // 2] = factor
    whole = Prompt(prompt.phi, factor * prompt.y, prompt.phi_query)
    return (whole, factor), (Prompt(prompt.phi, some * prompt.y, prompt.phi_query), factor)


GROWN: dict[str, Callable[[Prompt, float], Prompt]] = {
    "features": lambda p, c: Prompt(c * p.phi, p.y, c * p.phi_query),
    "queries": lambda p, c: Prompt(p.phi, p.y, c * p.phi_query),
    "targets": lambda p, c: Prompt(p.phi, c * p.y, p.phi_query),
}
"""What grows: features of supports and queries together, those of queries alone, or targets."""


def out_of_range(
    subject: Subject, task: LearnableTask, prompt: Prompt, name: str, seed: int
) -> OutOfRange:
    """The errors of a subject as one part of the prompts grows."""
    before = task.best(prompt)
    errors, moves = [], []
    for factor in GROWTH:
        grown = GROWN[name](prompt, factor)
        best = task.best(grown)
        errors.append(ratio(subject.predict(grown).double() - best, best, seed))
        unit = factor if name == "targets" else 1.0
        moves.append(ratio(best / unit - before, before, seed))
    return OutOfRange(name, GROWTH, tuple(errors), tuple(moves))
