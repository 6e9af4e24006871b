"""A compiled model read layer by layer, at the sites that the compiler wrote down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Edits, Record, Transformer, check_edits
from ridgeformer.types import Refusal, Trajectory


def trajectory(
    model: CompiledModel,
    prompt: Prompt,
    *,
    steps: int | None = None,
    states: bool = False,
    prefixes: bool = False,
    edits: Edits = (),
) -> Trajectory:
    """The prediction after each step, as the query tokens hold it at that step's site.

    A looped model runs as many steps as `steps` says. `states=True` reads each state vector (alpha
    and what else the solver keeps, in the units of the model) at the support tokens of a dual model.
    `prefixes=True` reads predictions at every x, as `model.predict_prefixes` does. `edits` are applied
    on the way, for ablations.
    """
    loops = model.loops(steps)
    model.certificate.check(prompt)
    sites = model.sites_of(steps)
    kept = sites["states"] if states and model.certificate.space == "dual" else {}
    entries = [*sites["predictions"], *(entry for line in kept.values() for entry in line)]
    tokens, context = sequence = model.sequence(prompt)
    queries = model.every_x(prompt) if prefixes else torch.arange(context, tokens.shape[1])
    first = model.transformer.config.n_registers
    places = (entry["site"] for entry in entries)
    values_at = recorded(model.transformer, sequence, places, edits, loops)

    def read(entry: dict[str, Any], tokens: Tensor) -> Tensor:
        return value_at(
            model.transformer, values_at[str(entry["site"])], first + context, entry, loops, tokens
        )

    predictions = torch.stack([read(e, queries) for e in sites["predictions"]])
    values = {
        name: torch.stack([read(entry, torch.arange(prompt.supports)) for entry in line])
        for name, line in kept.items()
    }
    if "alpha" in values:  # every solver starts from zero, which needs no place in the stream
        start = torch.zeros_like(values["alpha"][:1])
        values["alpha"] = torch.cat([start, values["alpha"]])
    return Trajectory(predictions, f"compiled {model.certificate.solver}", values)


def value_at(
    transformer: Transformer,
    stream: Tensor,
    context: int,
    entry: dict[str, Any],
    loops: int,
    tokens: Tensor,
) -> Tensor:
    """What an entry of the sites says of the stream at its site, at some tokens."""
    if "through" in entry:
        stream = early_exit(transformer, stream, context, entry, loops)
    stream = stream[:, transformer.config.n_registers + tokens]
    value: Tensor = stream[..., entry["columns"]] * entry.get("scale", 1.0)
    return value / stream[..., entry["over"]] if "over" in entry else value


def predicted_with_alpha(
    model: CompiledModel, prompt: Prompt, *, steps: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """What `model.predict` gives, to the bit, and the coefficients that the supports hold in that very pass.

    Passes with records or edits, and passes of other sizes, sum in another order, which CG amplifies.
    """
    loops = model.loops(steps)
    model.certificate.check(prompt)
    tokens, context = model.sequence(prompt)
    first = model.transformer.config.n_registers
    with torch.inference_mode():
        stream = model.transformer.residual_stream(tokens, context, loops=loops)
        predictions = model.transformer.readout(stream[:, first + context :])
    if model.certificate.space != "dual":
        return predictions, None
    entry = model.sites_of(steps)["states"]["alpha"][-1]
    rows = torch.arange(prompt.supports)
    # Nothing is written to the coefficients after the last step, so the end of the stream still has them.
    return predictions, value_at(model.transformer, stream, first + context, entry, loops, rows)


def early_exit(
    transformer: Transformer, stream: Tensor, context: int, entry: dict[str, Any], loops: int
) -> Tensor:
    """The stream of an early step, with some columns in another unit, put through the last blocks."""
    applied = transformer.config.applied(loops)
    with torch.inference_mode():
        stream = stream.clone()
        stream[..., entry["times"]["columns"]] *= entry["times"]["factor"]
        for layer in range(*entry["through"]):
            stream = transformer.blocks[applied[layer]](stream, context, (), f"blocks.{layer}")
        return stream


def residual_stream(model: CompiledModel, prompt: Prompt, *, steps: int | None = None) -> Tensor:
    """The whole stream, [1 + 2·layers, batch, n, d_model]: the embedding, then every sublayer.

    Its rows are the registers, where the model has any, and then the tokens. A looped model runs as
    many steps as `steps` says, and each pass has layers of its own here.
    """
    if not isinstance(model, CompiledModel):
        raise Refusal(
            f"A compiled model is needed, such as `compile` or `load` returns; got {type(model).__name__}."
        )
    loops = model.loops(steps)
    model.certificate.check(prompt)
    return torch.stack(list(streams(model.transformer, model.sequence(prompt), loops).values()))


Sequence = tuple[Tensor, int]
"""The tokens, and how many of them are context."""


def streams(transformer: Transformer, sequence: Sequence, loops: int = 1) -> dict[str, Tensor]:
    """The residual stream by site, [batch, n, d_model], in the order of the layers."""
    names = ["embed"]
    for layer in range(len(transformer.config.applied(loops))):
        names += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    values = recorded(transformer, sequence, names, loops=loops)
    return {name: values[name] for name in names}


def recorded(
    transformer: Transformer,
    sequence: Sequence,
    sites: Iterable[str],
    edits: Edits = (),
    loops: int = 1,
) -> dict[str, Tensor]:
    """The values at some sites of a transformer that reads the tokens of compiled models."""
    check_edits(edits)
    record = Record.of(sites)
    with torch.inference_mode():
        transformer.residual_stream(*sequence, [*edits, record], loops=loops)
    return record.values
