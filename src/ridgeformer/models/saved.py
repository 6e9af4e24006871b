"""Saved models, compiled or trained: loaded and read the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.models import compiled
from ridgeformer.models.trained import lens
from ridgeformer.tasks import Prompt
from ridgeformer.training import TrainedModel
from ridgeformer.transformer import Edits, read_config
from ridgeformer.types import Refusal, Trajectory

Model = CompiledModel | TrainedModel


def load(directory: str | Path) -> Model:
    """The compiled or trained model that a directory holds."""
    config = read_config(directory)
    if "recipe" in config:
        return TrainedModel.load(directory)
    if "certificate" in config:
        return CompiledModel.load(directory)
    raise Refusal(
        f"{directory} holds a model with neither a certificate nor a recipe: nothing says how it reads prompts."
    )


def predict(
    model: Model, prompt: Prompt, *, steps: int | None = None
) -> Float[Tensor, "batch q r"]:
    """Predictions of a compiled or trained model; a looped one runs as many steps as `steps` says."""
    check_model(model)
    if isinstance(model, CompiledModel):
        return model.predict(prompt, steps)
    check_no_steps(steps)
    return model.predict(prompt)


def check_model(model: Any) -> None:
    """Refuses what is no model, with what to write."""
    if not isinstance(model, (CompiledModel, TrainedModel)):
        raise Refusal(
            f"A compiled or trained model is needed, such as `load(directory)` returns; got {str(model)[:80]!r}, "
            f"of type {type(model).__name__}."
        )


def check_no_steps(steps: int | None) -> None:
    if steps is not None:
        raise Refusal("A trained model has no steps to choose, only its layers: leave `steps` out.")


def trajectory(
    model: Model,
    prompt: Prompt,
    *,
    steps: int | None = None,
    states: bool = False,
    prefixes: bool = False,
    edits: Edits = (),
) -> Trajectory:
    """Predictions after each step of a compiled model, or after each layer of a trained one.

    A looped model runs as many steps as `steps` says. `states=True` also reads the state vectors of a
    compiled solver. `prefixes=True` reads a model that solves every prefix at x₁ … x_k, each predicted
    from the pairs before it, and then at the queries. `edits` are applied on the way. An `OutsideTraining`
    warning says if a trained model was not trained on such prompts.
    """
    check_model(model)
    if isinstance(model, CompiledModel):
        return compiled.trajectory(
            model, prompt, steps=steps, states=states, prefixes=prefixes, edits=edits
        )
    check_no_steps(steps)
    if prefixes:
        raise Refusal("A trained model is read at the queries alone: leave `prefixes=True` out.")
    if states:
        raise Refusal("Nothing says where a trained model keeps states: probe it instead.")
    model.check(prompt)
    model.warn(prompt)
    return lens(model, prompt, edits=edits)
