"""`Subject`: a model that is to be identified, whoever made it.

All that is asked of one is its predictions for prompts and what its residual stream holds after each layer, at
the tokens of supports and of queries. A subject that also lets its stream be changed can be intervened on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.models.saved import Model, check_model
from ridgeformer.models.untrained import untrained_for
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Edit, Record, Transformer
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Reading:
    """What a model answered, and what it held as embedded (layer 0) and after each of its layers."""

    predictions: Float[Tensor, "batch q r"]
    queries: Float[Tensor, "layers batch q d"]
    supports: Float[Tensor, "layers batch k d"]
    """At the tokens that hold the supports' targets."""

    @property
    def layers(self) -> int:
        """The number of layers, without the embedding."""
        return self.queries.shape[0] - 1

    @property
    def finite(self) -> bool:
        """Whether all of it are numbers, and small enough to be squared."""
        parts = (self.predictions, self.queries, self.supports)
        return all(bool(torch.isfinite(part.double().square().sum())) for part in parts)


Change = Callable[
    [Float[Tensor, "batch k d"], Float[Tensor, "batch q d"]],
    tuple[Float[Tensor, "batch k d"], Float[Tensor, "batch q d"]],
]
"""What an intervention makes of the streams at supports and queries."""


class Subject(ABC):
    """A model to be identified."""

    name: str

    @abstractmethod
    def read(self, prompt: Prompt) -> Reading:
        """Predictions and streams."""

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return self.read(prompt).predictions

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        """The predictions if the streams after that layer are changed."""
        raise Refusal(f"{self.name} does not let its stream be changed: it can only be read.")

    def untrained(self, prompt: Prompt, seed: int) -> Subject | None:
        """A subject of the same shape with random weights, for prompts like these; None where there is none."""
        return None


Places = Callable[[Prompt], tuple[Tensor, int, Tensor]]
"""The tokens of a prompt, how many of them are context, and the positions of the supports."""


@dataclass(frozen=True)
class TransformerSubject(Subject):
    """A transformer of this package. Queries come after the context, some or one in each sequence.

    Prompts and answers are on the CPU, wherever the transformer is.
    """

    name: str
    transformer: Transformer
    places: Places
    loops: int = 1

    def read(self, prompt: Prompt) -> Reading:
        record = Record.of(self.sites)
        predictions = self.run(prompt, [record])
        streams = [self.split(record.values[site].cpu(), prompt) for site in self.sites]
        return Reading(
            predictions,
            torch.stack([queries for _, queries in streams]),
            torch.stack([supports for supports, _ in streams]),
        )

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return self.run(prompt, [])

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        _, context, places = self.places(prompt)
        first = self.transformer.config.n_registers

        def apply(stream: Tensor) -> Tensor:
            stream = stream.cpu().clone()
            supports, queries = change(*self.split(stream, prompt))
            each = len(stream) // len(prompt)
            stream[:, first + places] = supports.repeat_interleave(each, 0)
            stream[:, first + context :] = queries.reshape(len(stream), -1, queries.shape[-1])
            return stream.to(self.transformer.device)

        return self.run(prompt, [Edit(self.sites[layer], apply)])

    def untrained(self, prompt: Prompt, seed: int) -> Subject:
        control = untrained_for(self.transformer, prompt.supports, seed)
        return replace(self, name=f"untrained {self.name}", transformer=control)

    @property
    def sites(self) -> list[str]:
        """The embedding, and the end of every block as it is applied."""
        applied = len(self.transformer.config.applied(self.loops))
        return ["embed", *(f"blocks.{block}.resid_post" for block in range(applied))]

    def run(self, prompt: Prompt, edits: Sequence[Edit | Record]) -> Float[Tensor, "batch q r"]:
        tokens, context, _ = self.places(prompt)
        with torch.inference_mode():
            tokens = tokens.to(self.transformer.device)
            found: Tensor = self.transformer(tokens, context, edits, loops=self.loops).cpu()
        return found.reshape(*prompt.phi_query.shape[:2], -1)

    def split(self, stream: Tensor, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """The streams at the supports and at the queries of each prompt.

        Where each query has a sequence of its own, no support depends on it, and one sequence will do.
        """
        _, context, places = self.places(prompt)
        first = self.transformer.config.n_registers
        each = len(stream) // len(prompt)
        queries = stream[:, first + context :].reshape(*prompt.phi_query.shape[:2], -1)
        return stream[::each, first + places], queries


def subject(model: Model, *, steps: int | None = None, name: str | None = None) -> Subject:
    """A compiled or trained model as a subject; a looped one runs as many steps as `steps` says."""
    check_model(model)
    if isinstance(model, CompiledModel):
        compiled = model

        def tokens_of_compiled(prompt: Prompt) -> tuple[Tensor, int, Tensor]:
            tokens, context = compiled.sequence(prompt)
            pairs = compiled.certificate.every_prefix
            positions = torch.arange(1, context, 2) if pairs else torch.arange(prompt.supports)
            return tokens, context, positions

        return TransformerSubject(
            name or f"compiled {model.certificate.solver}",
            model.transformer,
            tokens_of_compiled,
            model.loops(steps),
        )
    if steps is not None:
        raise Refusal("A trained model has no steps to choose, only its layers: leave `steps` out.")
    trained = model

    def tokens_of_trained(prompt: Prompt) -> tuple[Tensor, int, Tensor]:
        trained.check(prompt)
        tokens, context = trained.layout.sequences(prompt)
        two = context == 2 * prompt.supports
        return (
            tokens,
            context,
            torch.arange(1, context, 2) if two else torch.arange(prompt.supports),
        )

    return TransformerSubject(
        name or f"trained {model.recipe.name}", model.transformer, tokens_of_trained
    )
