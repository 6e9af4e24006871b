"""A transformer that was trained, with its recipe and scores: what the disk holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import Prompt
from ridgeformer.training.layouts import LAYOUTS, Layout
from ridgeformer.training.recipe import Recipe
from ridgeformer.transformer import Transformer, load, save
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class TrainedModel:
    transformer: Transformer
    recipe: Recipe
    scores: dict[str, Any]
    """What was measured when it was saved, with what training cost."""

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.recipe.model.layout]

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """Predictions at the queries; features and outputs must be those of the task."""
        wanted = self.recipe.task
        if (prompt.features, prompt.outputs) != (wanted.features, wanted.outputs):
            raise Refusal(
                f"The model was trained on {wanted.features} features and {wanted.outputs} output; the "
                f"prompt has {prompt.features} and {prompt.outputs}."
            )
        with torch.inference_mode():
            return self.layout.predict(self.transformer, prompt)

    def save(self, directory: str | Path, force: bool = False) -> None:
        extra = {"recipe": self.recipe.to_dict(), "scores": self.scores}
        save(self.transformer, directory, extra, force)

    @staticmethod
    def load(directory: str | Path) -> TrainedModel:
        transformer, config = load(directory)
        if "recipe" not in config:
            raise Refusal(f"{directory} holds a model without a recipe: it was not trained.")
        return TrainedModel(
            transformer, Recipe.from_dict(config["recipe"]), config.get("scores", {})
        )
