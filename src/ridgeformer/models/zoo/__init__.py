"""Trained models that are shipped with the package, so that nobody has to train before seeing a result."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.training import TrainedModel
from ridgeformer.types import Refusal

MODELS = Path(__file__).parent / "models"


def names() -> list[str]:
    """The names of the shipped models."""
    return sorted(path.parent.name for path in MODELS.glob("*/config.json"))


def path_of(name: str) -> Path:
    """The directory of a shipped model; a missing one is an error, never a training run."""
    if name not in names():
        known = ", ".join(names()) or "none are shipped"
        raise Refusal(f"There is no shipped model {name!r}: choose from {known}.")
    return MODELS / name


def load(name: str) -> TrainedModel:
    """A shipped model by its name."""
    return TrainedModel.load(path_of(name))


def distance(model: TrainedModel, other: TrainedModel) -> float:
    """The largest difference of two weights."""
    ours, theirs = model.transformer.state_dict(), other.transformer.state_dict()
    return max(
        float((ours[name] - theirs[name]).abs().max()) for name in ours if ours[name].numel()
    )
