"""Token layouts: how a prompt becomes the tokens of a trained model, and where its predictions are.

    pairs        k tokens [φ | y], then the aggregator, then the queries, which read all of these
    interleaved  x₁, y₁, x₂, y₂, … under a causal mask, as in a language model; each x predicts its y
    alternating  x₁, (x₁, y₁), x₂, (x₂, y₂), …: the same, but the token of a y carries its x too

The tokens of all layouts are those of saved models, [φ | y | is_support | is_aggregator | is_query].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import LearnableTask, Prompt, Sample
from ridgeformer.transformer import Transformer, TransformerConfig
from ridgeformer.types import Refusal


class Layout(ABC):
    """A way to write prompts as sequences of tokens."""

    name: str
    positions: str
    """The kind of positions that its models have, unless a recipe says otherwise."""

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

    @abstractmethod
    def fewest(self, task: LearnableTask) -> int:
        """The smallest number of supports that a prediction has during training with prompts of full length."""

    def predict(self, model: Transformer, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        tokens, context = self.sequences(prompt)
        predictions: Tensor = model(tokens, context)
        return predictions.reshape(*prompt.phi_query.shape[:2], -1)


def shape_of(task: LearnableTask, shape: dict[str, Any], **more: Any) -> TransformerConfig:
    """The configuration that all layouts share, with what is `more` in one of them."""
    chosen = ("layout", "positions", "mask")
    kept = {name: value for name, value in shape.items() if name not in chosen}
    inputs = task.features + task.outputs + 3
    # Softmax logits are scaled as usual; linear attention averages over the supports.
    scale = shape["d_head"] ** -0.5 if shape["attention"] == "softmax" else 1 / (task.supports + 1)
    return TransformerConfig(d_in=inputs, d_out=task.outputs, attn_scale=scale, **kept, **more)


class Pairs(Layout):
    name = "pairs"
    positions = "none"

    def config(self, task: LearnableTask, shape: dict[str, Any]) -> TransformerConfig:
        if shape["positions"] not in ("usual", "none"):
            raise Refusal(
                "The supports of the layout pairs have no order: [model] positions must be none; "
                f"got {shape['positions']}."
            )
        mask = "prefix" if shape["mask"] == "usual" else shape["mask"]
        return shape_of(task, shape, mask=mask)

    def loss(self, model: Transformer, sample: Sample) -> Tensor:
        return (self.predict(model, sample.prompt) - sample.targets).square().mean()

    def sequences(self, prompt: Prompt) -> tuple[Float[Tensor, "sequences n d_in"], int]:
        return prompt.tokens(), prompt.supports + 1

    def cost(self, prompt: Prompt) -> int:
        return prompt.supports + 1 + prompt.phi_query.shape[1]

    def longest(self, task: LearnableTask) -> int:
        return task.supports

    def fewest(self, task: LearnableTask) -> int:
        return task.supports


class Decoder(Layout):
    """Two tokens for each support, its x and then its y, under a causal mask; each x predicts its y."""

    def config(self, task: LearnableTask, shape: dict[str, Any]) -> TransformerConfig:
        if shape["mask"] != "usual":
            raise Refusal(f"The layout {self.name} has a causal mask: leave out [model] mask.")
        positions = self.positions if shape["positions"] == "usual" else shape["positions"]
        points = task.supports + task.queries
        table = {"max_tokens": 2 * points} if positions == "learned" else {}
        return shape_of(task, shape, mask="causal", positional=positions, **table)

    def fewest(self, task: LearnableTask) -> int:
        """The second point is predicted from the first."""
        return 1


class Interleaved(Decoder):
    """The token of a y does not know its x, so that attention must find it by its position."""

    name = "interleaved"
    positions = "learned"

    def loss(self, model: Transformer, sample: Sample) -> Tensor:
        """The mean squared error at every point but the first, predicted from the points before it."""
        prompt = sample.prompt
        x = torch.cat([prompt.phi, prompt.phi_query], dim=1)
        y = torch.cat([prompt.y, sample.targets], dim=1)
        tokens = self.tokens(x, y[:, :-1])
        stream = model.residual_stream(tokens, tokens.shape[1], rows=slice(0, None, 2))
        return (model.readout(stream) - y)[:, 1:].square().mean()

    def tokens(self, x: Tensor, y: Tensor) -> Float[Tensor, "batch n d_in"]:
        """The sequence of the points, the last of which has an x and no y."""
        batch, n, p = x.shape
        r = y.shape[2]
        tokens = x.new_zeros(batch, 2 * n - 1, p + r + 3)
        tokens[:, 0::2, :p] = x
        tokens[:, 0::2, p + r + 2] = 1
        tokens[:, 1::2, p : p + r] = y
        tokens[:, 1::2, p + r] = 1
        return tokens

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


class Alternating(Decoder):
    """The token of a y carries its x too, so that no position has to bind them.

    Without positions, many queries can come next after the supports, each as if it were alone.
    """

    name = "alternating"
    positions = "none"

    def config(self, task: LearnableTask, shape: dict[str, Any]) -> TransformerConfig:
        if shape["positions"] not in ("usual", "none"):
            raise Refusal(
                "All queries of the layout alternating come next after the supports: [model] positions must be "
                f"none; got {shape['positions']}."
            )
        return super().config(task, shape)

    def loss(self, model: Transformer, sample: Sample) -> Tensor:
        """The mean squared error at every support but the first, predicted from those before it, and at the
        queries, predicted from all supports."""
        prompt = sample.prompt
        tokens, context = self.sequences(prompt)
        stream = model.residual_stream(tokens, context)
        asked = torch.cat([stream[:, 2:context:2], stream[:, context:]], dim=1)
        y = torch.cat([prompt.y[:, 1:], sample.targets], dim=1)
        return (model.readout(asked) - y).square().mean()

    def sequences(self, prompt: Prompt) -> tuple[Float[Tensor, "sequences n d_in"], int]:
        return prompt.alternating_tokens(), 2 * prompt.supports

    def cost(self, prompt: Prompt) -> int:
        return 2 * prompt.supports + prompt.phi_query.shape[1]

    def longest(self, task: LearnableTask) -> int:
        return task.supports


LAYOUTS: dict[str, Layout] = {
    layout.name: layout for layout in (Pairs(), Interleaved(), Alternating())
}
