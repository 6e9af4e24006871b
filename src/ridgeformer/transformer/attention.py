"""Attention, linear or softmax, over a context and queries that read it."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.transformer.config import TransformerConfig

CHUNK = 64
"""Tokens per chunk of linear attention. Sums over tokens go chunk by chunk, which loses fewer digits
than one long sum; under the causal mask the cost is quadratic inside a chunk and linear across."""

SHORT = 256
"""Up to so many context tokens, softmax attention forms its weights, which trains faster than to stream
them; beyond, they are never held at once."""

BLOCK = 2048
"""Tokens that a layer takes at a time, so that what it works on stays in the cache."""

ALL = slice(None)


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
        memory = self.config.attn_scale * torch.stack(parts).sum(0)
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
            logits += q.new_full((n, n), -torch.inf).triu(1)[rows]
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
