"""A compiled model read layer by layer, at the sites that the compiler wrote down."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Edits, Record
from ridgeformer.types import Trajectory


def trajectory(
    model: CompiledModel, prompt: Prompt, *, states: bool = False, edits: Edits = ()
) -> Trajectory:
    """The prediction after each step, as the query tokens hold it at that step's site.

    `states=True` reads each state vector (alpha, and for CG r and p in the units of the model) at
    the support tokens of a dual model. `edits` are applied on the way, for ablations.
    """
    model.certificate.check(prompt)
    sites = model.sites
    kept = sites["states"] if states and model.certificate.space == "dual" else {}
    entries = [*sites["predictions"], *(entry for line in kept.values() for entry in line)]
    record = Record.of(entry["site"] for entry in entries)
    k = prompt.supports
    with torch.inference_mode():
        model.transformer.residual_stream(prompt.tokens(), k + 1, [*edits, record])

    def read(entry: dict[str, Any], tokens: slice) -> Tensor:
        stream = record.values[str(entry["site"])][:, tokens]
        value: Tensor = stream[..., entry["columns"]]
        return value / stream[..., entry["over"]] if "over" in entry else value

    predictions = torch.stack([read(e, slice(k + 1, None)) for e in sites["predictions"]])
    values = {
        name: torch.stack([read(entry, slice(0, k)) for entry in line])
        for name, line in kept.items()
    }
    if "alpha" in values:  # every solver starts from zero, which needs no place in the stream
        start = torch.zeros_like(values["alpha"][:1])
        values["alpha"] = torch.cat([start, values["alpha"]])
    return Trajectory(predictions, f"compiled {model.certificate.solver}", values)


def residual_stream(model: CompiledModel, prompt: Prompt) -> Tensor:
    """The whole stream, [1 + 2·layers, batch, n, d_model]: the embedding, then every sublayer."""
    model.certificate.check(prompt)
    names = ["embed"]
    for layer in range(model.transformer.config.n_layers):
        names += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    record = Record.of(names)
    with torch.inference_mode():
        model.transformer.residual_stream(prompt.tokens(), prompt.supports + 1, [record])
    return torch.stack([record.values[name] for name in names])
