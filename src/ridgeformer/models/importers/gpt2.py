"""A GPT-2 that reads numbers, in the layout of Garg et al. (2022), as a trained model of this project.

There a token is d numbers, x or (y, 0, …, 0), and read_in maps both. Here a token is [φ | y | flags], so
that the row of y in the embedding is the column of read_in that x₁ has, and the flags have rows of zeros:

    read_in(x) = W x + b             embed.W = [Wᵀ; s·Wᵀ[0]; 0; 0; 0],   embed.b = b
    read_in(y, 0, …) = W[:, 0] y + b,   read_out(z) = v z + c            unembed.W = vᵀ/s, unembed.b = c/s

s is 1 unless the model saw other targets than those of the task, s times as large. All other weights are those
of GPT-2 with other names and with the heads apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ridgeformer.models.importers.base import Importer
from ridgeformer.models.importers.gpt2_files import GPT2Files
from ridgeformer.tasks import LearnableTask
from ridgeformer.training import Architecture, Recipe, TrainedModel, TrainingOptions
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class FromGPT2(Importer):
    """Checkpoints of read_in, Hugging Face's GPT2Model and read_out."""

    weights: str | None = field(
        default=None,
        metadata={
            "help": "The file of weights in the directory; model.safetensors, state.pt or model.pt if left out."
        },
    )
    target_scale: float = field(
        default=1.0,
        metadata={"help": "The model saw targets this many times as large as those of the task."},
    )

    name = "gpt2"
    summary = "a GPT2Model of Hugging Face between two linear maps, as Garg et al. train it"

    def __post_init__(self) -> None:
        if not (isfinite(self.target_scale) and self.target_scale > 0):
            raise Refusal(f"`target_scale` must be positive and finite; got {self.target_scale:g}.")

    def load(self, directory: str | Path, trained_on: LearnableTask | Recipe) -> TrainedModel:
        files = GPT2Files.read(directory, self.weights)
        recipe = trained_on
        if isinstance(recipe, LearnableTask):
            name = Path(directory).absolute().name
            recipe = Recipe(name, 0, recipe, Architecture(), TrainingOptions())
        recipe = replace(recipe, model=architecture(files))
        check_task(files, recipe.task)
        config = replace(
            recipe.config(),
            max_tokens=files.positions,
            attn_scale=files.attn_scale,
            dtype="float64" if files.dtype == torch.float64 else "float32",
        )
        model = Transformer(config, init="zero")
        model.load_state_dict(our_weights(files, self.target_scale))
        scores: dict[str, Any] = {
            "imported": {"from": self.name, "file": files.name, "target scale": self.target_scale}
        }
        if files.steps is not None:
            scores["steps"] = files.steps
        return TrainedModel(model, recipe, scores)


def architecture(files: GPT2Files) -> Architecture:
    """The shape of the checkpoint, as the `[model]` of a recipe."""
    return Architecture(
        layout="interleaved",
        positions="learned",
        n_layers=files.n_layer,
        d_model=files.n_embd,
        n_heads=files.n_head,
        d_head=files.n_embd // files.n_head,
        d_mlp=files.n_inner,
        mlp=files.activation,
    )


def check_task(files: GPT2Files, task: LearnableTask) -> None:
    """Refuses a task whose prompts the model cannot read."""
    features = files.read_in.shape[1]
    if task.features != features:
        raise Refusal(
            f"The checkpoint reads {features} features and the task has {task.features}: "
            f"say `features={features}`."
        )
    if task.outputs != 1:
        raise Refusal(f"The checkpoint has one output, and the task has {task.outputs}.")
    most = (files.positions - 1) // 2
    if task.supports > most:
        raise Refusal(
            f"The checkpoint has {files.positions} positions, room for {most} supports and a query; the "
            f"task has {task.supports}: say `supports={most}` or fewer."
        )


def our_weights(files: GPT2Files, scale: float) -> dict[str, Tensor]:
    """The weights of our transformer, by their names here."""
    W = files.read_in.T  # (d, n_embd)
    flags = W.new_zeros(3, W.shape[1])
    weights = {
        "embed.W": torch.cat([W, scale * W[:1], flags]),
        "embed.b": files.in_bias,
        "pos": files.tensors["wpe.weight"],
        "ln_final.w": files.tensors["ln_f.weight"],
        "ln_final.b": files.tensors["ln_f.bias"],
        "unembed.W": files.read_out.T / scale,
        "unembed.b": files.out_bias / scale,
    }
    for layer in range(files.n_layer):
        prefix = f"h.{layer}."
        theirs = {
            k.removeprefix(prefix): v for k, v in files.tensors.items() if k.startswith(prefix)
        }
        weights |= {f"blocks.{layer}.{k}": v for k, v in block(theirs, files.n_head).items()}
    return weights


def block(theirs: dict[str, Tensor], heads: int) -> dict[str, Tensor]:
    """One block. GPT-2 holds queries, keys and values in one matrix, which is x W + b as here."""
    d = len(theirs["attn.c_attn.weight"])
    W = theirs["attn.c_attn.weight"].view(d, 3, heads, d // heads).permute(1, 2, 0, 3)
    b = theirs["attn.c_attn.bias"].view(3, heads, d // heads)
    weights = {f"attn.W_{name}": W[i] for i, name in enumerate("QKV")}
    weights |= {f"attn.b_{name}": b[i] for i, name in enumerate("QKV")}
    return weights | {
        "attn.W_O": theirs["attn.c_proj.weight"].view(heads, d // heads, d),
        "attn.b_O": theirs["attn.c_proj.bias"],
        "mlp.W_in": theirs["mlp.c_fc.weight"],
        "mlp.b_in": theirs["mlp.c_fc.bias"],
        "mlp.W_out": theirs["mlp.c_proj.weight"],
        "mlp.b_out": theirs["mlp.c_proj.bias"],
        "ln1.w": theirs["ln_1.weight"],
        "ln1.b": theirs["ln_1.bias"],
        "ln2.w": theirs["ln_2.weight"],
        "ln2.b": theirs["ln_2.bias"],
    }
