"""λ is a number in the weights: change it there, and predictions move as ridge regression says.

Where K p + λ p is read, λ is an entry of a weight matrix. A twin, compiled for λ' and otherwise the
same, shows which: the entries that are λ'/λ times as large. Whatever else differs belongs to tables,
whose ranges depend on λ, and stays: inside their ranges tables give the same reciprocals.

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
    """The tensor of each entry that was changed."""
    prediction_apart: float
    """To the solver at the new ridge, at every step."""
    unchanged_apart: float
    """The control: to the solver at the old ridge."""
    slope_apart: float
    """Of (f(λ') − f(λ))/(λ' − λ) to −k(x)ᵀA⁻²y, which is of the order of λ' − λ once the
    solver has converged, and says nothing before."""
    slope_cosine: float
    """Over all prompts and queries: whether predictions move in the right direction."""


def ridge_entries(model: CompiledModel, twin: CompiledModel) -> dict[str, Tensor]:
    """By tensor, which entries are proportional to λ: of heads where heads read A p, else of MLPs.

    Beside heads that read A p, an MLP's entries in proportion to λ are the ends of tables, and so
    are those of a gate. Methods with momentum have no such entry: theirs is a sum, as in ω − ωηλ.
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
    """Puts the twin's λ into the model's weights."""
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
