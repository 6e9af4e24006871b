"""One transformer for everything: compiled weights and trained weights are instances of this class.

    x ← embed(tokens);  per block: x ← x + attn(ln1(x)), x ← x + mlp(ln2(x));  unembed(ln_final(x))

A sequence is context tokens, then query tokens. Context tokens read context tokens (all of them
under the prefix mask, the earlier ones under the causal mask); a query reads the context and
itself; nobody reads a query. The context's rows are computed from the context alone, so that no
bit of them can depend on a query.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.transformer.config import TransformerConfig
from ridgeformer.transformer.edits import Edits, apply_edits, check_sites
from ridgeformer.types import Refusal

CHUNK = 64
"""Tokens per chunk of linear attention. Sums over tokens go chunk by chunk, which loses fewer digits
than one long sum; under the causal mask the cost is quadratic inside a chunk and linear across."""

SHORT = 256
"""Up to so many context tokens, softmax attention forms its weights, which trains faster than to stream
them; beyond, they are never held at once."""

BLOCK = 2048
"""Tokens that a layer takes at a time, so that what it works on stays in the cache."""

ALL = slice(None)


class Linear(nn.Module):
    """x W + b, with W stored as [in, out]."""

    def __init__(self, d_in: int, d_out: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(d_in, d_out, dtype=dtype))
        self.b = nn.Parameter(torch.zeros(d_out, dtype=dtype))

    def forward(self, x: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        return x @ self.W + self.b


class Norm(nn.Module):
    """LayerNorm, or RMSNorm, which leaves the mean where it is and has no shift."""

    def __init__(self, kind: str, d_model: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(d_model, dtype=dtype))
        self.b = nn.Parameter(torch.zeros(d_model, dtype=dtype)) if kind == "layernorm" else None

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        if self.b is None:
            return F.rms_norm(x, x.shape[-1:], self.w, eps=1e-5)
        return F.layer_norm(x, x.shape[-1:], self.w, self.b, eps=1e-5)


class Attention(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        h, d, e, dtype = config.n_heads, config.d_model, config.d_head, config.torch_dtype
        for name in ("Q", "K", "V"):
            setattr(self, f"W_{name}", nn.Parameter(torch.zeros(h, d, e, dtype=dtype)))
            setattr(self, f"b_{name}", nn.Parameter(torch.zeros(h, e, dtype=dtype)))
        self.W_O = nn.Parameter(torch.zeros(h, e, d, dtype=dtype))
        self.b_O = nn.Parameter(torch.zeros(d, dtype=dtype))

    def project(self, x: Float[Tensor, "batch n d_model"], names: str) -> tuple[Tensor, ...]:
        """Queries, keys or values, [batch, n_heads, n, d_head] each, in one product."""
        W = torch.cat([getattr(self, f"W_{name}") for name in names])
        b = torch.cat([getattr(self, f"b_{name}") for name in names])
        heads, d, e = W.shape
        flat = F.linear(x, W.transpose(1, 2).reshape(heads * e, d), b.flatten())
        split = flat.view(*x.shape[:2], len(names), heads // len(names), e)
        return split.permute(2, 0, 3, 1, 4).unbind(0)

    def mix(self, x: Float[Tensor, "batch n d_model"], context: int, rows: slice = ALL) -> Tensor:
        """Each head's weighted sum of values, [batch, n, n_heads, d_head], at some tokens."""
        if self.config.attention == "linear" and self.config.mask == "prefix":
            return self.linear_prefix(x, context)[:, rows]
        q, k, v = self.project(x, "QKV")
        if self.config.attention == "softmax" and x.shape[1] == context <= SHORT:
            return self.among_context(q[:, :, rows], k, v, rows).transpose(1, 2)
        attend = self.linear_causal if self.config.attention == "linear" else self.softmax
        return attend(q, k, v, context).transpose(1, 2)[:, rows]

    def output(self, z: Tensor) -> Float[Tensor, "batch n d_model"]:
        h, e, d = self.W_O.shape
        W = self.W_O.reshape(h * e, d).mT
        return blockwise(lambda part: F.linear(part.flatten(2), W, self.b_O), z)

    def linear_prefix(self, x: Float[Tensor, "batch n d_model"], context: int) -> Tensor:
        """Σ_i s·(q_j·k_i) v_i as q_j·(s·Σ_i k_i v_iᵀ): no n×n matrix, and only blocks of q, k, v."""
        parts = [summed_products(*self.project(part, "KV")) for part in blocks(x[:, :context])]
        memory = self.config.attn_scale * torch.stack(parts).sum(
            0
        )  # (batch, heads, d_head, d_head)
        z = blockwise(lambda part: (self.project(part, "Q")[0] @ memory).transpose(1, 2), x)
        z[:, context:] += self.own(*self.project(x[:, context:], "QKV"))
        return z

    def linear_causal(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        keys, values = k[:, :, :context], v[:, :, :context]
        scale = self.config.attn_scale
        first = causal_linear(scale * q[:, :, :context], keys, values)
        q, k, v = (t[:, :, context:] for t in (q, k, v))
        rest = q @ (scale * summed_products(keys, values)) + self.own(q, k, v).transpose(1, 2)
        return torch.cat([first, rest], dim=2)

    def own(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What linear attention reads of the token itself, [batch, n, n_heads, d_head]."""
        score = self.config.attn_scale * (q * k).sum(-1, keepdim=True)
        return (score * v).transpose(1, 2)

    def softmax(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        short = context <= SHORT
        first = self.among_context if short else self.streamed_among_context
        parts = [first(*(t[:, :, :context] for t in (q, k, v)))]
        if q.shape[2] > context:
            rest = self.of_queries if short else self.streamed_of_queries
            parts.append(rest(q[:, :, context:], k, v, context))
        return torch.cat(parts, dim=2)

    def among_context(self, q: Tensor, k: Tensor, v: Tensor, rows: slice = ALL) -> Tensor:
        """Context tokens, or some of them, read context tokens."""
        logits = self.config.attn_scale * q @ k.mT
        if self.config.mask == "causal":
            n = k.shape[2]
            logits = logits + q.new_full((n, n), -torch.inf).triu(1)[rows]
        return logits.softmax(-1) @ v

    def of_queries(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        """A query reads the context and itself."""
        q = self.config.attn_scale * q
        own = (q * k[:, :, context:]).sum(-1, keepdim=True)
        weights = torch.cat([q @ k[:, :, :context].mT, own], dim=-1).softmax(-1)
        from_context = weights[..., :context] @ v[:, :, :context]
        return from_context + weights[..., context:] * v[:, :, context:]

    def streamed_among_context(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        causal, scale = self.config.mask == "causal", self.config.attn_scale
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    def streamed_of_queries(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        queries = q.shape[2]
        visible = torch.ones(queries, context + queries, dtype=torch.bool, device=q.device)
        visible[:, context:] = torch.eye(queries, dtype=torch.bool, device=q.device)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, scale=self.config.attn_scale
        )


def blocks(x: Tensor) -> list[Tensor]:
    """The sequence in blocks of tokens: views, into which results can be written."""
    return [x[:, start : start + BLOCK] for start in range(0, x.shape[1], BLOCK)]


def blockwise(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A token-wise function, applied to a block of tokens at a time."""
    parts = blocks(x)
    first = function(parts[0])
    if len(parts) == 1:
        return first
    out = first.new_empty(*x.shape[:2], *first.shape[2:])
    targets = blocks(out)
    targets[0][:] = first
    for part, target in zip(parts[1:], targets[1:], strict=True):
        target[:] = function(part)
    return out


def summed_products(k: Tensor, v: Tensor) -> Tensor:
    """Σ_i k_i v_iᵀ over the tokens, [batch, heads, d_head, d_head], summed chunk by chunk."""
    whole = k.shape[2] // CHUNK * CHUNK
    rest = k[:, :, whole:].mT @ v[:, :, whole:]
    if whole == 0:
        return rest
    keys, values = (t[:, :, :whole].reshape(*t.shape[:2], -1, CHUNK, t.shape[3]) for t in (k, v))
    return (keys.mT @ values).sum(2) + rest


def causal_linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear attention to the tokens up to one's own; each tensor [batch, heads, n, d_head]."""
    n = q.shape[2]
    q, k, v = (F.pad(t, (0, 0, 0, -n % CHUNK)) for t in (q, k, v))
    q, k, v = (t.view(*t.shape[:2], -1, CHUNK, t.shape[3]) for t in (q, k, v))
    within = (q @ k.mT).tril() @ v
    before = F.pad((k.mT @ v).cumsum(2)[:, :, :-1], (0, 0, 0, 0, 1, 0))
    return (within + q @ before).flatten(2, 3)[:, :, :n]


class MLP(nn.Module):
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
        else:
            hidden = F.relu(hidden) if self.kind == "relu" else F.gelu(hidden)
        return F.linear(hidden, self.W_out.mT, self.b_out)


class Block(nn.Module):
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


class Transformer(nn.Module):
    """`init="normal"` draws GPT-2's initial weights; `init="zero"` leaves weights to be filled in."""

    def __init__(self, config: TransformerConfig, init: str = "normal") -> None:
        super().__init__()
        self.config = config
        self.embed = Linear(config.d_in, config.d_model, config.torch_dtype)
        if config.positional == "learned":
            self.pos = nn.Parameter(
                torch.zeros(config.max_tokens, config.d_model, dtype=config.torch_dtype)
            )
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        if config.norm != "none":
            self.ln_final = Norm(config.norm, config.d_model, config.torch_dtype)
        self.unembed = Linear(config.d_model, config.d_out, config.torch_dtype)
        if init == "normal":
            self.draw_weights()

    def draw_weights(self) -> None:
        """Normal weights, those that write to the residual stream shrunk with depth (GPT-2)."""
        for name, weight in self.named_parameters():
            if weight.ndim > 1 and weight.numel():
                fan_in = weight.shape[-2] if weight.ndim == 2 else self.config.d_model
                writes = name.endswith(("W_O", "W_out"))
                shrink = (2 * max(self.config.n_layers, 1)) ** -0.5 if writes else 1.0
                nn.init.normal_(weight, std=shrink * fan_in**-0.5)

    def residual_stream(
        self,
        tokens: Float[Tensor, "batch n d_in"],
        context: int,
        edits: Edits = (),
        rows: slice = ALL,
    ) -> Float[Tensor, "batch some d_model"]:
        """The residual stream after the last block, which is computed for the tokens in `rows` only.

        The first `context` tokens are context.
        """
        if tokens.ndim != 3 or tokens.shape[-1] != self.config.d_in:
            raise Refusal(
                f"The model reads tokens of {self.config.d_in} entries; got {list(tokens.shape)}."
            )
        if not 0 < context <= tokens.shape[1]:
            raise Refusal(f"context must be between 1 and {tokens.shape[1]} tokens; got {context}.")
        check_sites(edits, self.config.n_layers)
        x: Tensor = self.embed(tokens.to(self.config.torch_dtype))
        if self.config.positional == "learned":
            if tokens.shape[1] > self.config.max_tokens:
                raise Refusal(
                    f"The model has positions for {self.config.max_tokens} tokens; "
                    f"got {tokens.shape[1]}."
                )
            x = x + self.pos[: tokens.shape[1]]
        x = apply_edits(edits, "embed", x)
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            x = block(x, context, edits, f"blocks.{layer}", rows if layer == last else ALL)
        return x if last >= 0 else x[:, rows]

    def readout(self, x: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch n d_out"]:
        out: Tensor = self.unembed(self.ln_final(x) if self.config.norm != "none" else x)
        return out

    def forward(
        self, tokens: Float[Tensor, "batch n d_in"], context: int, edits: Edits = ()
    ) -> Float[Tensor, "batch q d_out"]:
        """Predictions at the query tokens."""
        return self.readout(self.residual_stream(tokens, context, edits)[:, context:])
