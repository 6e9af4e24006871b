"""`ModuleSubject`: any `torch.nn.Module` as a subject, read and changed by forward hooks.

The user says which submodules are the layers, how a prompt becomes the module's inputs, where its supports and
queries stand in the sequence, and how the module's output becomes predictions. The module is not changed: hooks
are there during a call only, and dropout is off meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.models.subject import Change, Reading, Subject
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, counted

Inputs = Callable[[Prompt], Any]
"""What the module is called with: a tensor, a tuple of arguments, or a mapping of keywords."""

Positions = Callable[[Prompt], tuple[Sequence[int] | Tensor, Sequence[int] | Tensor]]
"""The positions of the supports' targets and of the queries in a sequence."""

Seen = Callable[[int, Tensor], Tensor]
"""What becomes of the stream of a layer, with the number of the layer."""

AGREEMENT = 1e-3
"""Sequences of one prompt may differ by this fraction at the supports, which is round-off in float32."""


@dataclass(frozen=True)
class ModuleSubject(Subject):
    """A module with named layers, whose outputs are the streams.

    A prompt takes one sequence with all of its queries, or one sequence for each query, prompt by prompt. In the
    second case the streams at the supports must not depend on the query, as under a causal mask.
    """

    name: str
    module: nn.Module
    inputs: Inputs
    """From a prompt, in the module's precision and on its device, to the module's inputs."""
    outputs: Callable[[Any, Prompt], Tensor]
    """From the module's output to the predictions, [batch, q, r]."""
    layers: Sequence[str]
    """The submodules whose outputs are the streams after each layer, in order.

    A submodule that runs several times, as in a model that shares its weights, is named as often.
    """
    positions: Positions
    embedding: str | None = None
    """The submodule whose output is layer 0; left out, it is what the first layer reads."""
    batch_first: bool = True
    """Whether streams are [sequences, n, d]; otherwise they are [n, sequences, d]."""

    def __post_init__(self) -> None:
        if isinstance(self.layers, str) or not self.layers:
            raise Refusal("A ModuleSubject needs a list of the names of its layers.")
        known = [name for name, _ in self.module.named_modules() if name]
        for name in [*self.layers, *([self.embedding] if self.embedding else [])]:
            if name not in known:
                raise Refusal(
                    f"The module has no submodule {name!r}: choose from those of `named_modules`, "
                    f"such as {', '.join(known[:6]) or 'none'}."
                )

    def read(self, prompt: Prompt) -> Reading:
        seen: dict[int, Tensor] = {}

        def keep(layer: int, stream: Tensor) -> Tensor:
            seen[layer] = stream.clone()
            return stream

        predictions = self.run(prompt, keep)
        streams = [self.split(seen[layer], prompt) for layer in range(len(self.layers) + 1)]
        supports, queries = zip(*streams, strict=True)
        if len({part.shape for part in supports}) > 1:
            sizes = ", ".join(str(part.shape[-1]) for part in supports)
            raise Refusal(f"The layers of {self.name} have streams of several widths: {sizes}.")
        return Reading(predictions, torch.stack(queries), torch.stack(supports))

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return self.run(prompt, lambda layer, stream: stream)

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        wanted = range(len(self.layers) + 1)[layer]

        def apply(number: int, stream: Tensor) -> Tensor:
            if number != wanted:
                return stream
            supports, queries = change(*self.split(stream, prompt))
            at_supports, at_queries = self.places(prompt)
            each = len(stream) // len(prompt)
            stream = stream.clone()
            stream[:, at_supports] = supports.repeat_interleave(each, 0)
            stream[:, at_queries] = queries.reshape(len(stream), -1, queries.shape[-1])
            return stream

        return self.run(prompt, apply)

    def run(self, prompt: Prompt, seen: Seen) -> Float[Tensor, "batch q r"]:
        """The predictions, where each stream is replaced by what `seen` makes of it."""
        prompt = self.fitted(prompt)
        with torch.inference_mode(), evaluating(self.module), self.hooks(seen):
            arguments = self.inputs(prompt)
            if isinstance(arguments, Mapping):
                output = self.module(**arguments)
            else:
                output = self.module(*(arguments if isinstance(arguments, tuple) else [arguments]))
            predictions = self.outputs(output, prompt)
        wanted = (*prompt.phi_query.shape[:2], prompt.outputs)
        if tuple(predictions.shape) != wanted:
            raise Refusal(
                f"`outputs` must give predictions [batch, q, r], here {list(wanted)}; "
                f"got {list(predictions.shape)}."
            )
        return predictions

    def fitted(self, prompt: Prompt) -> Prompt:
        """The prompt in the precision and on the device of the module."""
        numbers = (p for p in self.module.parameters() if p.is_floating_point())
        if (first := next(numbers, None)) is None:
            return prompt
        return prompt.to(first.dtype).to(first.device)

    @contextmanager
    def hooks(self, seen: Seen) -> Iterator[None]:
        """Shows the streams of a forward pass to `seen`, and checks afterwards that all layers ran."""
        runs: Counter[str] = Counter()
        first = self.layers[0]
        # The number of a layer is its place in this list; None is what the first layer reads.
        named = [self.embedding, *self.layers]

        def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if runs[first]:
                return None
            if not args:
                raise Refusal(f"{first!r} is called with keywords only: name the `embedding` too.")
            return self.shown(seen, 0, args[0]), *args[1:]

        def after(name: str) -> Callable[[nn.Module, Any, Any], Any]:
            numbers = [number for number, layer in enumerate(named) if layer == name]

            def hook(module: nn.Module, args: Any, output: Any) -> Any:
                runs[name] += 1
                if runs[name] > len(numbers):
                    return None
                number = numbers[runs[name] - 1]
                if isinstance(output, tuple):
                    return self.shown(seen, number, output[0]), *output[1:]
                return self.shown(seen, number, output)

            return hook

        times = Counter(name for name in named if name is not None)
        with ExitStack() as stack:
            handles = [self.module.get_submodule(n).register_forward_hook(after(n)) for n in times]
            if self.embedding is None:
                reader = self.module.get_submodule(first)
                handles.append(reader.register_forward_pre_hook(before))
            for handle in handles:
                stack.callback(handle.remove)
            yield
        for name, wanted in times.items():
            if runs[name] != wanted:
                raise Refusal(
                    f"The submodule {name!r} ran {counted(runs[name], 'time')} and is named "
                    f"{counted(wanted, 'time')}: name it in `layers` once for each time that it runs."
                )

    def shown(self, seen: Seen, layer: int, stream: Any) -> Tensor:
        if not isinstance(stream, Tensor) or stream.ndim != 3:
            what = list(stream.shape) if isinstance(stream, Tensor) else type(stream).__name__
            raise Refusal(
                f"Layer {layer} of {self.name} must be a stream [sequences, n, d]; got {what}."
            )
        turned = stream if self.batch_first else stream.transpose(0, 1)
        result = seen(layer, turned)
        return result if self.batch_first else result.transpose(0, 1)

    def places(self, prompt: Prompt) -> tuple[Tensor, Tensor]:
        supports, queries = (torch.as_tensor(part) for part in self.positions(prompt))
        if len(supports) != prompt.supports:
            raise Refusal(
                f"`positions` must give a position for each of the {prompt.supports} supports; "
                f"got {len(supports)}."
            )
        return supports, queries

    def split(self, stream: Tensor, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """The streams at the supports and at the queries of each prompt."""
        at_supports, at_queries = self.places(prompt)
        batch, q = prompt.phi_query.shape[:2]
        each = len(stream) // batch
        if len(stream) != each * batch or each * len(at_queries) != q:
            raise Refusal(
                f"{counted(len(stream), 'sequence')} with {counted(len(at_queries), 'query', 'queries')} "
                f"each cannot hold {counted(batch, 'prompt')} with {counted(q, 'query', 'queries')}: "
                "give each prompt one sequence, or one for each query. Say `batch_first=False` if "
                "streams are [n, sequences, d]."
            )
        supports = stream[:, at_supports].reshape(batch, each, len(at_supports), -1)
        apart = (supports - supports[:, :1]).abs().max()
        if apart > AGREEMENT * supports.abs().max():
            raise Refusal(
                f"In {self.name} the supports hold other streams for each query, so that there is no "
                "one stream to read: give prompts of one query."
            )
        return supports[:, 0], stream[:, at_queries].reshape(batch, q, -1)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Puts the module in evaluation mode, and each part back in its own mode afterwards."""
    training = [part for part in module.modules() if part.training]
    try:
        module.eval()
        yield
    finally:
        for part in training:
            part.training = True
