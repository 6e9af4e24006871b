"""λ is a number in the weights: change it there, and predictions move as ridge regression says.

Where K p + λ p is read, λ is an entry of a weight matrix. A twin, compiled for λ' and otherwise the
same, shows which entries these are: its own are λ'/λ times as large. All other differences belong
to tables, whose ranges depend on λ. They are left alone, because the tables give the same
reciprocals inside their ranges.

With f(λ) = k(x)ᵀ(K + λI)⁻¹y the derivative is −k(x)ᵀA⁻²y.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ridgeformer.analysis.reference import apart, coefficients
from ridgeformer.compiler import CompiledModel
from ridgeformer.models import trajectory
from ridgeformer.models.reference import ridge_of
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class RidgeChange:
    """Distances are relative to the largest entry of the solver's predictions."""

    ridge: float
    changed_to: float
    weights: tuple[str, ...]
    """For each entry that was changed, the name of its tensor."""
    prediction_apart: float
    """The distance to the solver at the new ridge, over all steps."""
    unchanged_apart: float
    """The control: the distance to the solver at the old ridge, over all steps."""
    slope_apart: float
    """The distance of (f(λ') − f(λ))/(λ' − λ) from −k(x)ᵀA⁻²y, relative to the largest entry of the
    latter. It is of the order of λ' − λ once the solver has converged, and says nothing before."""
    slope_cosine: float
    """The cosine of these two slopes over all prompts and queries: whether predictions move in the
    right direction."""


def ridge_entries(model: CompiledModel, twin: CompiledModel) -> dict[str, Tensor]:
    """For each tensor, the entries proportional to λ: in heads if heads read A p, else in MLPs.

    If heads read A p, the entries of an MLP that are proportional to λ are the ends of tables, and
    so are those of a gate. Methods with momentum have no such entry: theirs is a sum such as
    ω − ωηλ.
    """
    ratio = ridge_of(twin) / ridge_of(model)
    theirs = twin.transformer.state_dict()
    found = {}
    for name, weight in model.transformer.state_dict().items():
        if not name.endswith(("W_Q", "W_K", "W_V", "W_in")) or theirs[name].shape != weight.shape:
            continue
        scaled = (theirs[name] - ratio * weight).abs() <= 1e-14 * weight.abs()
        if (scaled & (weight != 0)).any():
            found[name] = scaled & (weight != 0)
    return {name: which for name, which in found.items() if ".attn." in name} or found


def with_ridge(model: CompiledModel, twin: CompiledModel) -> CompiledModel:
    """The model with the twin's ridge in place of its own, and nothing else changed."""
    entries = ridge_entries(model, twin)
    if not entries:
        raise Refusal("No weight is proportional to λ: compile model and twin alike but for λ.")
    transformer = deepcopy(model.transformer)
    weights, ratio = transformer.state_dict(), ridge_of(twin) / ridge_of(model)
    with torch.no_grad():
        for name, which in entries.items():
            weights[name][which] *= ratio
    return replace(model, transformer=transformer)


def change_ridge(model: CompiledModel, twin: CompiledModel, prompt: Prompt) -> RidgeChange:
    """Puts the twin's λ into the model's weights, and compares predictions with the solver's."""
    ridge, other = ridge_of(model), ridge_of(twin)
    found = trajectory(with_ridge(model, twin), prompt).predictions
    machine, old = coefficients(model, prompt)
    _, new = coefficients(model, prompt, ridge=other)
    slope = (found[-1] - trajectory(model, prompt).final) / (other - ridge)
    system = machine.dense_system()
    twice = torch.linalg.solve(system, torch.linalg.solve(system, prompt.y))
    expected = -machine.predict(twice)
    names = [
        name for name, which in ridge_entries(model, twin).items() for _ in range(int(which.sum()))
    ]
    return RidgeChange(
        ridge,
        other,
        tuple(names),
        apart(found, machine.predict(new)),
        apart(found, machine.predict(old)),
        apart(slope, expected),
        float(torch.cosine_similarity(slope.flatten(), expected.flatten(), dim=0)),
    )
