"""A trained transformer with its recipe and scores, as it is saved."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import Prompt, check_prompt
from ridgeformer.training.layouts import LAYOUTS, Layout
from ridgeformer.training.outside import OutsideTraining, Seen
from ridgeformer.training.recipe import Recipe
from ridgeformer.transformer import Transformer, check_precision, load, save
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class TrainedModel:
    """A trained transformer, the recipe that it was trained by, and its scores."""

    transformer: Transformer
    recipe: Recipe
    scores: dict[str, Any]
    """Its scores when it was saved, and the cost of its training."""

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.recipe.model.layout]

    def cost(self, prompt: Prompt) -> int:
        """The number of tokens that one prompt takes."""
        return self.layout.cost(prompt)

    @property
    def most_supports(self) -> int | None:
        """The largest number of supports that learned positions allow; None if there is no limit."""
        config = self.transformer.config
        # A support takes two positions, and the query one.
        return (config.max_tokens - 1) // 2 if config.positional == "learned" else None

    def check(self, prompt: Prompt) -> None:
        """Refuses a prompt whose features or outputs are not the task's, or that has too many supports."""
        check_prompt(prompt)
        wanted = self.recipe.task
        if (prompt.features, prompt.outputs) != (wanted.features, wanted.outputs):
            raise Refusal(
                f"The model was trained on {wanted.features} features and {wanted.outputs} output; the "
                f"prompt has {prompt.features} and {prompt.outputs}."
            )
        if self.most_supports is not None and prompt.supports > self.most_supports:
            raise Refusal(
                f"The model has learned positions for at most {self.most_supports} supports; the "
                f"prompt has {prompt.supports}."
            )

    @cached_property
    def seen(self) -> Seen:
        """What the prompts of its training were like; it is measured when it is first asked for."""
        recipe = self.recipe
        fewer = recipe.training.fewer_supports > 0 or recipe.curriculum.first_points > 0
        fewest = 1 if fewer else self.layout.fewest(recipe.task)
        return Seen.of(recipe.task, fewest, self.layout.longest(recipe.task))

    def outside(self, prompt: Prompt) -> str | None:
        """In what the prompts are unlike those of its training, in one sentence with figures; None if in nothing."""
        if not (complaints := self.seen.complaints(prompt)):
            return None
        return (
            f"The model was not trained on prompts like these: {'; '.join(complaints)}. Nothing is known of "
            "its predictions there."
        )

    def warn(self, prompt: Prompt) -> None:
        """Warns of prompts that are unlike those of its training."""
        if said := self.outside(prompt):
            warnings.warn(said, OutsideTraining, stacklevel=3)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """Predictions at the queries; an `OutsideTraining` warning says if the model was not trained on such prompts."""
        self.check(prompt)
        self.warn(prompt)
        return self.run(prompt)

    def run(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """Predictions at the queries of prompts that are checked, or strange on purpose."""
        with torch.inference_mode():
            return self.layout.predict(self.transformer, prompt)

    def to(self, device: torch.device | str) -> TrainedModel:
        """Moves the model to another device, as `nn.Module.to` does, and returns it; prompts must be there, too."""
        check_precision(
            self.transformer.config.torch_dtype, device, "keep a model of that precision on the CPU"
        )
        self.transformer.to(device)
        return self

    def save(self, directory: str | Path, force: bool = False) -> None:
        """Saves the model with its recipe and scores; `force` replaces a model that is there."""
        extra = {"recipe": self.recipe.to_dict(), "scores": self.scores}
        save(self.transformer, directory, extra, force)

    @staticmethod
    def load(directory: str | Path) -> TrainedModel:
        """Loads a model that `save` wrote; a damaged one is refused."""
        transformer, config = load(directory)
        if "recipe" not in config:
            raise Refusal(f"{directory} holds a model without a recipe: it was not trained.")
        recipe, scores = config["recipe"], config.get("scores", {})
        if not isinstance(recipe, dict) or not isinstance(scores, dict):
            raise Refusal(f"{directory} is damaged: its recipe and scores must be tables.")
        model = TrainedModel(transformer, Recipe.from_dict(recipe), scores)
        expected = model.recipe.config()
        for name in ("d_in", "d_out", "mask", "positional"):
            if (seen := getattr(transformer.config, name)) != getattr(expected, name):
                raise Refusal(
                    f"{directory} is damaged: {name} is {seen}, and by its recipe "
                    f"{getattr(expected, name)}."
                )
        return model

    def __call__(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The same as `predict`."""
        return self.predict(prompt)

    def __repr__(self) -> str:
        risks = [
            f"{score['excess']:.4f} with {supports} supports"
            for supports, score in self.scores.get("by supports", {}).items()
            if score.get("excess") is not None
        ]
        excess = f"\n  excess risk {', '.join(risks)}" if risks else ""
        return f"TrainedModel of {self.recipe!r}\n  weights   {self.transformer!r}{excess}"
