"""`GPT2Subject`: a GPT-2 of Hugging Face that reads numbers, in the layout of Garg et al. (2022).

    tokens        x₁, (y₁, 0, …, 0), x₂, (y₂, 0, …, 0), …, x        d numbers each
    predictions   read_out(GPT2Model(inputs_embeds=read_in(tokens)))   at the x's

Each query has a sequence of its own, in which it comes after all supports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.models.adapters.module import ModuleSubject
from ridgeformer.models.importers.gpt2_files import GPT2Files
from ridgeformer.models.subject import Change, Reading, Subject
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class GPT2Subject(Subject):
    """A linear map into a GPT2Model, the GPT2Model, and a linear map to one prediction."""

    read_in: nn.Linear
    backbone: nn.Module
    read_out: nn.Linear
    name: str = "GPT-2"

    def __post_init__(self) -> None:
        if self.read_out.out_features != 1:
            raise Refusal(
                "A GPT-2 in the layout of Garg et al. has one output; its read_out has "
                f"{self.read_out.out_features}."
            )
        if not hasattr(self.backbone, "h") or not hasattr(self.backbone, "wpe"):
            raise Refusal(
                "The backbone must be a GPT2Model of transformers, with blocks `h` and positions `wpe`; "
                f"got {type(self.backbone).__name__}."
            )

    @staticmethod
    def of(model: nn.Module, name: str = "GPT-2") -> GPT2Subject:
        """The subject of a module that has a read_in, a backbone and a read_out, as that of Garg et al."""
        parts = [
            getattr(model, f"_{part}", None) or getattr(model, part, None)
            for part in ("read_in", "backbone", "read_out")
        ]
        read_in, backbone, read_out = parts
        if not isinstance(read_in, nn.Linear) or not isinstance(read_out, nn.Linear):
            raise Refusal(
                f"{type(model).__name__} needs a read_in and a read_out that are nn.Linear: "
                "give the parts to `GPT2Subject` instead."
            )
        if not isinstance(backbone, nn.Module):
            raise Refusal(
                f"{type(model).__name__} has no backbone: give the parts to `GPT2Subject` instead."
            )
        return GPT2Subject(read_in, backbone, read_out, name)

    @staticmethod
    def load(directory: str | Path, weights: str | None = None) -> GPT2Subject:
        """The GPT-2 of a checkpoint, run by transformers itself; see docs/your-own-model.md for its files."""
        files = GPT2Files.read(directory, weights)
        try:
            from transformers import GPT2Config, GPT2Model
        except ImportError as error:
            raise Refusal(
                "A GPT-2 is run by transformers: pip install 'ridgeformer[export]'."
            ) from error
        backbone = GPT2Model(GPT2Config(**files.gpt2_config())).to(files.dtype)
        kept = backbone.state_dict()
        backbone.load_state_dict(kept | files.tensors)
        maps = []
        for weight, bias in ((files.read_in, files.in_bias), (files.read_out, files.out_bias)):
            linear = nn.Linear(weight.shape[1], weight.shape[0], dtype=files.dtype)
            linear.load_state_dict({"weight": weight, "bias": bias})
            maps.append(linear)
        return GPT2Subject(maps[0], backbone.eval(), maps[1], Path(directory).absolute().name)

    def read(self, prompt: Prompt) -> Reading:
        return self.hooked.read(self.checked(prompt))

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return self.hooked.predict(self.checked(prompt))

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Float[Tensor, "batch q r"]:
        return self.hooked.changed(self.checked(prompt), layer, change)

    @cached_property
    def hooked(self) -> ModuleSubject:
        blocks: Any = self.backbone.h
        return ModuleSubject(
            self.name,
            self.backbone,
            inputs=lambda prompt: {"inputs_embeds": self.read_in(interleaved(prompt))},
            outputs=self.predictions,
            layers=[f"h.{number}" for number in range(len(blocks))],
            positions=lambda prompt: (
                torch.arange(1, 2 * prompt.supports, 2),
                torch.tensor([2 * prompt.supports]),
            ),
            embedding="drop",
        )

    def predictions(self, output: Any, prompt: Prompt) -> Float[Tensor, "batch q 1"]:
        found: Tensor = self.read_out(output.last_hidden_state[:, -1])
        return found.reshape(*prompt.phi_query.shape[:2], 1)

    def checked(self, prompt: Prompt) -> Prompt:
        """The prompt, unless it does not fit the model."""
        if (prompt.features, prompt.outputs) != (self.read_in.in_features, 1):
            raise Refusal(
                f"{self.name} reads {self.read_in.in_features} features and 1 output; the prompt has "
                f"{prompt.features} and {prompt.outputs}."
            )
        table: Any = self.backbone.wpe
        most = (len(table.weight) - 1) // 2
        if prompt.supports > most:
            raise Refusal(
                f"{self.name} has positions for at most {most} supports; the prompt has {prompt.supports}."
            )
        return prompt


def interleaved(prompt: Prompt) -> Float[Tensor, "sequences n d"]:
    """A sequence for each query: x and y of each support in turn, a y as (y, 0, …, 0), then the query."""
    batch, q, d = prompt.phi_query.shape
    tokens = prompt.phi.new_zeros(batch, q, 2 * prompt.supports + 1, d)
    tokens[:, :, 0:-1:2] = prompt.phi[:, None]
    tokens[:, :, 1::2, :1] = prompt.y[:, None]
    tokens[:, :, -1] = prompt.phi_query
    return tokens.flatten(0, 1)
