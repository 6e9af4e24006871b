"""Token layouts: how a prompt becomes the tokens of a trained model, and where its predictions are.

    pairs        k tokens [φ | y], then the aggregator, then the queries, which read all of these
    interleaved  x₁ y₁ x₂ y₂ … with learned positions, as in a language model; each x predicts its y

The tokens of both layouts are those of saved models, [φ | y | is_support | is_aggregator | is_query].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import LearnableTask, Prompt, Sample
from ridgeformer.transformer import Transformer, TransformerConfig


class Layout(ABC):
    """A way to write prompts as sequences of tokens."""

    name: str

    @abstractmethod
    def config(self, task: LearnableTask, shape: dict[str, Any]) -> TransformerConfig:
        """The configuration of a transformer of that shape that reads this layout."""

    @abstractmethod
    def loss(self, model: Transformer, sample: Sample) -> Tensor:
        """The mean squared error that training minimises."""

    @abstractmethod
    def sequences(self, prompt: Prompt) -> tuple[Float[Tensor, "sequences n d_in"], int]:
        """The tokens, and how many of them are context; the others are the queries, in order."""

    @abstractmethod
    def cost(self, prompt: Prompt) -> int:
        """The number of tokens that one prompt takes."""

    @abstractmethod
    def longest(self, task: LearnableTask) -> int:
        """The largest number of supports that a prediction has during training."""

    def predict(self, model: Transformer, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        tokens, context = self.sequences(prompt)
        predictions: Tensor = model(tokens, context)
        return predictions.reshape(*prompt.phi_query.shape[:2], -1)


def shape_of(task: LearnableTask, shape: dict[str, Any], **more: Any) -> TransformerConfig:
    """The configuration that both layouts share, with what is `more` in one of them."""
    kept = {name: value for name, value in shape.items() if name != "layout"}
    inputs = task.features + task.outputs + 3
    # Softmax logits are scaled as usual; linear attention averages over the supports.
    scale = shape["d_head"] ** -0.5 if shape["attention"] == "softmax" else 1 / (task.supports + 1)
    return TransformerConfig(d_in=inputs, d_out=task.outputs, attn_scale=scale, **kept, **more)


class Pairs(Layout):
    name = "pairs"

    def config(self, task: LearnableTask, shape: dict[str, Any]) -> TransformerConfig:
        return shape_of(task, shape, mask="prefix")

    def loss(self, model: Transformer, sample: Sample) -> Tensor:
        return (self.predict(model, sample.prompt) - sample.targets).square().mean()

    def sequences(self, prompt: Prompt) -> tuple[Float[Tensor, "sequences n d_in"], int]:
        return prompt.tokens(), prompt.supports + 1

    def cost(self, prompt: Prompt) -> int:
        return prompt.supports + 1 + prompt.phi_query.shape[1]

    def longest(self, task: LearnableTask) -> int:
        return task.supports


class Interleaved(Layout):
    name = "interleaved"

    def config(self, task: LearnableTask, shape: dict[str, Any]) -> TransformerConfig:
        points = task.supports + task.queries
        return shape_of(task, shape, mask="causal", positional="learned", max_tokens=2 * points)

    def tokens(self, x: Tensor, y: Tensor) -> Float[Tensor, "batch n d_in"]:
        """The sequence x₁ y₁ … x_n y_n, whose last x may have no y."""
        batch, n, p = x.shape
        r = y.shape[2]
        tokens = x.new_zeros(batch, 2 * n, p + r + 3)
        tokens[:, 0::2, :p] = x
        tokens[:, 0::2, p + r + 2] = 1
        tokens[:, 1 : 2 * y.shape[1] : 2, p : p + r] = y
        tokens[:, 1 : 2 * y.shape[1] : 2, p + r] = 1
        return tokens[:, : n + y.shape[1]]

    def loss(self, model: Transformer, sample: Sample) -> Tensor:
        """The mean squared error at every point but the first, predicted from the points before it."""
        prompt = sample.prompt
        x = torch.cat([prompt.phi, prompt.phi_query], dim=1)
        y = torch.cat([prompt.y, sample.targets], dim=1)
        tokens = self.tokens(x, y[:, :-1])
        stream = model.residual_stream(tokens, tokens.shape[1], rows=slice(0, None, 2))
        return (model.readout(stream) - y)[:, 1:].square().mean()

    def sequences(self, prompt: Prompt) -> tuple[Float[Tensor, "sequences n d_in"], int]:
        """Each query has a sequence of its own, in which it comes after all supports."""
        x, y = (t.repeat_interleave(prompt.phi_query.shape[1], 0) for t in (prompt.phi, prompt.y))
        x = torch.cat([x, prompt.phi_query.flatten(0, 1)[:, None]], dim=1)
        return self.tokens(x, y), 2 * prompt.supports

    def cost(self, prompt: Prompt) -> int:
        return prompt.phi_query.shape[1] * (2 * prompt.supports + 1)

    def longest(self, task: LearnableTask) -> int:
        """Queries are points of the sequence too, and the last one reads all other points."""
        return task.supports + task.queries - 1


LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in (Pairs(), Interleaved())}
