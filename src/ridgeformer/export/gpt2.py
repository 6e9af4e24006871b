"""A softmax model as a checkpoint of the unmodified Hugging Face GPT2Model.

GPT-2 normalises what every sublayer reads. The construction of the residual stream makes these norms
harmless. Where our stream is x, with d entries, that of GPT-2 is

    s = [x, −x, C, −C, 0, …]                                        D = n_embd entries
    mean(s) = 0,   var(s) = 2(C² + |x|²)/D
    LayerNorm(s) = g·s/√(var(s) + ε) = s·(1 − O(|x|²/C²))           with gain g = √(2C²/D + ε)

A sublayer writes an update to the first half and its negative to the second. It reads both halves as
((x + δ) − (−x + δ))/2, which cancels the round-off δ ≈ u·C in the mean, so that C may be large. C and
−C come from the positional table, which is the same at every position; no sublayer reads or writes them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from ridgeformer.export.base import Exporter
from ridgeformer.transformer import Transformer, TransformerConfig, whole_directory
from ridgeformer.types import Refusal

EPSILON = 1e-5
"""GPT-2's layer_norm_epsilon."""

CONSTANTS = {"float64": 2.0**36, "float32": 2.0**20}
"""C for each precision. (|x|/C)² stays below round-off while |x| is below 700 in float64, 250 in float32.

With random weights, 40 layers, |x| ≈ 11 and float64, the measured relative error is 4e-11 at C = 2²⁰,
1e-14 at 2²⁶, and 1e-15 from 2³⁰ to 2⁴⁶, with 5 layers as with 150. With |x| ≈ 1e5 it is 3e-9 at 2³⁰ and
7e-13 at 2³⁶. To read the first half alone would cost the round-off in the mean: 5e-10 at 2²⁶, 4e-7 at 2³⁶.
"""

NEEDED = {
    "attention": "softmax",
    "mlp": "relu",
    "norm": "none",
    "mask": "prefix",
    "positional": "none",
}


@dataclass(frozen=True)
class GPT2(Exporter):
    """Checkpoints for GPT2Model.from_pretrained.

    Two files beside the checkpoint hold what GPT-2 has no place for: the maps from tokens and to
    predictions, and the model's whole config.json.
    """

    positions: int = field(default=1024, metadata={"help": "Most tokens that a prompt may have."})
    constant: float | None = field(
        default=None, metadata={"help": "C of docs/format.md; by default it fits the precision."}
    )

    name = "gpt2"
    summary = "the stock Hugging Face GPT2Model"

    def __post_init__(self) -> None:
        if self.constant is not None and not (math.isfinite(self.constant) and self.constant > 0):
            raise Refusal(f"The constant must be positive and finite; got {self.constant}.")
        if self.positions < 1:
            raise Refusal(f"GPT-2 needs at least 1 position; got {self.positions}.")

    def save(
        self,
        model: Transformer,
        directory: str | Path,
        saved: dict[str, Any] | None = None,
        force: bool = False,
    ) -> None:
        check_holdable(model.config)
        C = CONSTANTS[model.config.dtype] if self.constant is None else self.constant
        config = gpt2_config(model.config, self.positions)
        beside = {"constant": C, "modules": modules(model.config.n_layers), "model": saved or {}}
        with whole_directory(directory, force) as partial:
            config.save_pretrained(partial)
            weights = gpt2_weights(model, config, C)
            save_file(weights, partial / "model.safetensors", metadata={"format": "pt"})
            save_file(outer_maps(model, config.n_embd), partial / "ridgeformer.safetensors")
            (partial / "ridgeformer.json").write_text(json.dumps(beside, indent=1) + "\n")


def prefix_mask(supports: int, queries: int, dtype: torch.dtype) -> Float[Tensor, "1 1 n n"]:
    """The mask that GPT2Model adds to the scores: 0 where a row's token reads a column's, −∞ elsewhere."""
    n = supports + 1 + queries
    visible = (torch.arange(n) <= supports) | torch.eye(n, dtype=torch.bool)
    return torch.zeros(1, 1, n, n, dtype=dtype).masked_fill(~visible, -torch.inf)


def check_holdable(config: TransformerConfig) -> None:
    """Refuses a model that GPT-2's architecture cannot compute."""
    if config.loop is not None:
        raise Refusal("GPT-2 applies every block once and cannot hold a loop: write it out first.")
    odd = [f"{name} {seen}" for name in NEEDED if (seen := getattr(config, name)) != NEEDED[name]]
    if odd:
        raise Refusal(
            f"GPT-2 cannot hold a model with {', '.join(odd)}: compile one with "
            f"`to=SoftmaxAttention(products=Interpolated(…))`{', and without `causal`' * (config.mask == 'causal')}."
        )


def gpt2_config(config: TransformerConfig, positions: int) -> Any:
    """The configuration of a GPT-2 that has room for the model."""
    try:
        from transformers import GPT2Config
    except ImportError as error:
        raise Refusal(
            "The export to GPT-2 needs transformers: pip install 'ridgeformer[export]'."
        ) from error
    # GPT-2 divides n_embd evenly among the heads, so channels that stay 0 fill it up.
    n_head = max(config.n_heads, 1)
    head_dim = max(config.d_head, math.ceil((2 * config.d_model + 2) / n_head))
    return GPT2Config(
        architectures=["GPT2Model"],
        vocab_size=1,
        n_positions=positions,
        n_embd=n_head * head_dim,
        n_layer=config.n_layers,
        n_head=n_head,
        n_inner=config.d_mlp,
        activation_function="relu",
        layer_norm_epsilon=EPSILON,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
        dtype=config.dtype,
    )


def gpt2_weights(model: Transformer, config: Any, C: float) -> dict[str, Tensor]:
    """The weights of GPT2Model, by their names there."""
    ours, d, D = model.state_dict(), model.config.d_model, config.n_embd
    zeros = torch.zeros(D, dtype=model.config.torch_dtype)
    constants, gain = zeros.clone(), zeros.clone()
    constants[2 * d], constants[2 * d + 1] = C, -C
    gain[: 2 * d] = math.sqrt(2 * C**2 / D + EPSILON)
    weights = {"wte.weight": zeros[None], "wpe.weight": constants.repeat(config.n_positions, 1)}
    norms = [f"h.{layer}.{name}" for layer in range(config.n_layer) for name in ("ln_1", "ln_2")]
    for name in [*norms, "ln_f"]:
        weights |= {f"{name}.weight": gain.clone(), f"{name}.bias": zeros.clone()}
    for layer in range(config.n_layer):
        prefix = f"blocks.{layer}."
        block = {k.removeprefix(prefix): v for k, v in ours.items() if k.startswith(prefix)}
        parts = attention(block, config, model.config.attn_scale) | mlp(block, D)
        weights |= {f"h.{layer}.{name}": tensor for name, tensor in parts.items()}
    return weights


def attention(block: dict[str, Tensor], config: Any, attn_scale: float) -> dict[str, Tensor]:
    D, n_head, head_dim = config.n_embd, config.n_head, config.n_embd // config.n_head
    h, d, e = block["attn.W_Q"].shape
    # GPT-2 divides scores by √head_dim, which the queries are multiplied by.
    factors = {"Q": attn_scale * math.sqrt(head_dim), "K": 1.0, "V": 1.0}
    W = block["attn.W_Q"].new_zeros(d, 3, n_head, head_dim)
    b = W.new_zeros(3, n_head, head_dim)
    for i, (name, factor) in enumerate(factors.items()):
        W[:, i, :h, :e] = factor * block[f"attn.W_{name}"].transpose(0, 1)
        b[i, :h, :e] = factor * block[f"attn.b_{name}"]
    out = W.new_zeros(n_head, head_dim, D)
    out[:h, :e] = write(block["attn.W_O"], D)
    return {
        "attn.c_attn.weight": read(W.flatten(1), D),
        "attn.c_attn.bias": b.flatten(),
        "attn.c_proj.weight": out.flatten(0, 1),
        "attn.c_proj.bias": write(block["attn.b_O"], D),
    }


def mlp(block: dict[str, Tensor], D: int) -> dict[str, Tensor]:
    return {
        "mlp.c_fc.weight": read(block["mlp.W_in"], D),
        "mlp.c_fc.bias": block["mlp.b_in"],
        "mlp.c_proj.weight": write(block["mlp.W_out"], D),
        "mlp.c_proj.bias": write(block["mlp.b_out"], D),
    }


def outer_maps(model: Transformer, D: int) -> dict[str, Tensor]:
    """The maps before and after GPT-2.

    inputs_embeds = tokens · embedding + embedding_bias
    prediction = last_hidden_state · readout + readout_bias
    """
    ours = model.state_dict()
    return {
        "embedding": write(ours["embed.W"], D),
        "embedding_bias": write(ours["embed.b"], D),
        "readout": read(ours["unembed.W"], D),
        "readout_bias": ours["unembed.b"],
    }


def read(W: Float[Tensor, "d out"], D: int) -> Float[Tensor, "D out"]:
    """Half the difference of the two halves, which is x without the error in the mean."""
    return torch.cat([W / 2, -W / 2, W.new_zeros(D - 2 * len(W), W.shape[1])])


def write(W: Float[Tensor, "*rows d"], D: int) -> Float[Tensor, "*rows D"]:
    """Writes to the first half, and the negative to the second, so that the mean stays 0."""
    return torch.cat([W, -W, W.new_zeros(*W.shape[:-1], D - 2 * W.shape[-1])], dim=-1)


def modules(n_layers: int) -> dict[str, str]:
    """For each site of our residual stream, the module of GPT-2 whose input it is."""
    entries = [f"h.{layer}.ln_1" for layer in range(n_layers)] + ["ln_f"]
    sites = ["embed"] + [f"blocks.{layer}.resid_post" for layer in range(n_layers)]
    middle = {f"blocks.{layer}.resid_mid": f"h.{layer}.ln_2" for layer in range(n_layers)}
    return dict(zip(sites, entries, strict=True)) | middle
