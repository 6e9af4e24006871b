"""One transformer class, of which compiled and trained models are instances.

    x ← embed(tokens);  per block: x ← x + attn(ln1(x)), x ← x + mlp(ln2(x));  unembed(ln_final(x))

A sequence consists of context tokens and then query tokens. A context token reads all context tokens
under the prefix mask, and those up to itself under the causal mask. A query reads the context and
itself, and no other token reads a query; under the context mask, which is otherwise the prefix mask, a
query does not read itself. The rows of the context are computed from the context alone,
so that no bit of them can depend on a query.

A model may have registers, which are constant rows of the residual stream. They stand before the tokens
of every prompt and belong to the context. It may also have a loop, a run of blocks that is applied as
often as the caller says.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.transformer import packing
from ridgeformer.transformer.attention import ALL, Attention, blockwise
from ridgeformer.transformer.config import TransformerConfig
from ridgeformer.transformer.edits import Edits, apply_edits, check_heads, check_sites
from ridgeformer.types import Refusal, counted


class Affine(nn.Module):
    """x W + b, with W stored as [d_in, d_out]."""

    def __init__(self, d_in: int, d_out: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(d_in, d_out, dtype=dtype))
        self.b = nn.Parameter(torch.zeros(d_out, dtype=dtype))

    def forward(self, x: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        return x @ self.W + self.b


class Norm(nn.Module):
    """LayerNorm, or RMSNorm, which does not subtract the mean and has no bias."""

    def __init__(self, kind: str, d_model: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(d_model, dtype=dtype))
        self.b = nn.Parameter(torch.zeros(d_model, dtype=dtype)) if kind == "layernorm" else None

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        if self.b is None:
            return F.rms_norm(x, x.shape[-1:], self.w, eps=1e-5)
        return F.layer_norm(x, x.shape[-1:], self.w, self.b, eps=1e-5)


class MLP(nn.Module):
    """One hidden layer, plain or gated."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.kind = config.mlp
        d, m, dtype = config.d_model, config.d_mlp, config.torch_dtype
        self.W_in = nn.Parameter(torch.zeros(d, m, dtype=dtype))
        self.b_in = nn.Parameter(torch.zeros(m, dtype=dtype))
        if self.kind == "reglu":
            self.W_gate = nn.Parameter(torch.zeros(d, m, dtype=dtype))
            self.b_gate = nn.Parameter(torch.zeros(m, dtype=dtype))
        self.W_out = nn.Parameter(torch.zeros(m, d, dtype=dtype))
        self.b_out = nn.Parameter(torch.zeros(d, dtype=dtype))

    def forward(self, x: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch n d_model"]:
        return blockwise(self.tokenwise, x)

    def tokenwise(self, x: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch n d_model"]:
        hidden = F.linear(x, self.W_in.mT, self.b_in)
        if self.kind == "reglu":
            hidden = F.relu(F.linear(x, self.W_gate.mT, self.b_gate)) * hidden
        elif self.kind == "relu":
            hidden = F.relu(hidden)
        else:
            hidden = F.gelu(hidden, approximate="none" if self.kind == "gelu" else "tanh")
        return F.linear(hidden, self.W_out.mT, self.b_out)


class Block(nn.Module):
    """Attention and then an MLP, each of which adds to the residual stream."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attn = Attention(config)
        self.mlp = MLP(config)
        if config.norm != "none":
            self.ln1 = Norm(config.norm, config.d_model, config.torch_dtype)
            self.ln2 = Norm(config.norm, config.d_model, config.torch_dtype)
        self.normed = config.norm != "none"

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        context: int,
        edits: Edits,
        name: str,
        rows: slice = ALL,
    ) -> Float[Tensor, "batch some d_model"]:
        z = self.attn.mix(self.ln1(x) if self.normed else x, context, rows)
        z = apply_edits(edits, f"{name}.attn.z", z)
        x = x[:, rows] + apply_edits(edits, f"{name}.attn_out", self.attn.output(z))
        x = apply_edits(edits, f"{name}.resid_mid", x)
        update = self.mlp(self.ln2(x) if self.normed else x)
        x = x + apply_edits(edits, f"{name}.mlp_out", update)
        return apply_edits(edits, f"{name}.resid_post", x)


def sinusoids(tokens: int, d_model: int) -> Float[Tensor, "n d_model"]:
    """Fixed positions (Vaswani et al. 2017): sin and cos of n/10000^(2i/d_model) in columns 2i and 2i + 1."""
    columns = torch.arange(d_model)
    rates = 10_000.0 ** (-(columns - columns % 2).double() / d_model)
    angles = torch.arange(tokens).double()[:, None] * rates
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


def plain(block: nn.Module) -> TypeGuard[Block]:
    """Whether a block and its parts are of the classes above, and nobody has hooked into them."""
    if type(block) is not Block:
        return False
    if type(block.attn) is not Attention or type(block.mlp) is not MLP:
        return False
    norms = [block.ln1, block.ln2] if block.normed else []
    return not any(map(hooked, (block, block.attn, block.mlp, *norms)))


def hooked(module: nn.Module) -> bool:
    """Whether somebody looks at what goes into a module or comes out of it."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


class Transformer(nn.Module):
    """A transformer; `init="normal"` draws initial weights as GPT-2 does, `init="zero"` sets all to 0."""

    def __init__(self, config: TransformerConfig, init: str = "normal") -> None:
        super().__init__()
        self.config = config
        self.embed = Affine(config.d_in, config.d_model, config.torch_dtype)
        if config.positional == "learned":
            self.pos = nn.Parameter(
                torch.zeros(config.max_tokens, config.d_model, dtype=config.torch_dtype)
            )
        if config.n_registers:
            self.registers = nn.Parameter(
                torch.zeros(config.n_registers, config.d_model, dtype=config.torch_dtype)
            )
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        if config.norm != "none":
            self.ln_final = Norm(config.norm, config.d_model, config.torch_dtype)
        self.unembed = Affine(config.d_model, config.d_out, config.torch_dtype)
        if init == "normal":
            self.draw_weights()

    def draw_weights(self) -> None:
        """Draws normal weights; those that write to the residual stream shrink with depth, as in GPT-2."""
        for name, weight in self.named_parameters():
            if weight.ndim > 1 and weight.numel():
                fan_in = weight.shape[-2] if weight.ndim == 2 else self.config.d_model
                writes = name.endswith(("W_O", "W_out"))
                shrink = (2 * max(self.config.n_layers, 1)) ** -0.5 if writes else 1.0
                nn.init.normal_(weight, std=shrink * fan_in**-0.5)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.unembed.b.device

    def residual_stream(
        self,
        tokens: Float[Tensor, "batch n d_in"],
        context: int,
        edits: Edits = (),
        rows: slice = ALL,
        loops: int = 1,
    ) -> Float[Tensor, "batch some d_model"]:
        """The residual stream after the last block, at the rows in `rows`.

        The first `context` tokens are the context, and the others are queries. Registers are rows
        before the first token. Blocks in the loop are applied `loops` times; sites of edits number the
        blocks in the order in which they are applied.
        """
        if tokens.ndim != 3 or tokens.shape[-1] != self.config.d_in:
            raise Refusal(
                f"The model reads tokens of {self.config.d_in} entries; got {list(tokens.shape)}."
            )
        if tokens.device != self.device:
            raise Refusal(
                f"The model is on {self.device} and its input on {tokens.device}: move one of them with `.to(…)`."
            )
        if not 0 < context <= tokens.shape[1]:
            raise Refusal(f"context must be between 1 and {tokens.shape[1]} tokens; got {context}.")
        applied = self.config.applied(loops)
        check_sites(edits, len(applied))
        check_heads(edits, [self.get_submodule(f"blocks.{layer}.attn") for layer in applied])
        context += self.config.n_registers
        if not edits and (packed := self.packed(tokens, applied)) is not None:
            return packing.run(packed, self.embedded, tokens, context, rows)
        x = apply_edits(edits, "embed", self.embedded(tokens))
        last = len(applied) - 1
        for number, layer in enumerate(applied):
            block = self.blocks[layer]
            x = block(x, context, edits, f"blocks.{number}", rows if number == last else ALL)
        return x if last >= 0 else x[:, rows]

    def packed(self, tokens: Tensor, applied: list[int]) -> list[packing.PackedBlock] | None:
        """The blocks without the zeros of their weights, if these tokens pass them faster that way.

        Gradients, edits, hooks and parts of other classes see the full shapes.
        """
        layers = set(applied)
        if not layers or not packing.only_numbers(tokens):
            return None
        if not packing.enough(tokens, self.config, len(applied) / len(layers)):
            return None
        middle = self.blocks[applied[len(applied) // 2]]
        if not plain(middle) or packing.looks_dense(middle):
            return None
        blocks = {layer: block for layer in layers if plain(block := self.blocks[layer])}
        if hooked(self.embed) or len(blocks) < len(layers):
            return None
        packed = packing.pack_all(blocks, self.config)
        return None if packed is None else [packed[layer] for layer in applied]

    def embedded(
        self, tokens: Float[Tensor, "batch n d_in"]
    ) -> Float[Tensor, "batch rows d_model"]:
        """The residual stream before the first block: registers, and then a row for each token."""
        x: Tensor = self.embed(tokens.to(self.config.torch_dtype))
        if self.config.positional == "learned":
            if tokens.shape[1] > self.config.max_tokens:
                raise Refusal(
                    f"The model has positions for {self.config.max_tokens} tokens; "
                    f"got {tokens.shape[1]}."
                )
            x = x + self.pos[: tokens.shape[1]]
        elif self.config.positional == "sinusoidal":
            x = x + sinusoids(tokens.shape[1], self.config.d_model).to(x)
        if self.config.n_registers:
            x = torch.cat([self.registers.expand(len(x), -1, -1), x], dim=1)
        return x

    def readout(self, x: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch n d_out"]:
        """The outputs that the residual stream is mapped to."""
        out: Tensor = self.unembed(self.ln_final(x) if self.config.norm != "none" else x)
        return out

    def forward(
        self,
        tokens: Float[Tensor, "batch n d_in"],
        context: int,
        edits: Edits = (),
        loops: int = 1,
    ) -> Float[Tensor, "batch q d_out"]:
        """Predictions at the query tokens."""
        stream = self.residual_stream(tokens, context, edits, loops=loops)
        return self.readout(stream[:, self.config.n_registers + context :])

    def __repr__(self) -> str:
        c, parameters = self.config, sum(p.numel() for p in self.parameters())
        mlp = f"a {c.mlp} MLP" if c.d_mlp else "no MLP"
        registers = f", {counted(c.n_registers, 'register')}" if c.n_registers else ""
        loop = "" if c.loop is None else f", blocks {c.loop[0]} to {c.loop[1] - 1} in a loop"
        return (
            f"Transformer: {counted(c.n_layers, 'layer')} of {c.attention} attention and {mlp}, d_model "
            f"{c.d_model}, {counted(c.n_heads, 'head')} of {c.d_head}, d_mlp {c.d_mlp}, norm {c.norm}, {c.mask} "
            f"mask{registers}{loop}, {c.dtype}; {parameters:,} parameters"
        )
