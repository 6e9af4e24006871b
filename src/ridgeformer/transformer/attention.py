"""Linear and softmax attention over a context and over queries that read it."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.transformer.config import TransformerConfig

CHUNK = 64
"""Linear attention sums over tokens in chunks of this size, which loses fewer digits than one long sum.
Under the causal mask the cost is quadratic inside a chunk and linear in the number of chunks."""

SHORT = 256
"""Softmax attention forms its matrix of weights for contexts of up to this many tokens, which makes
training faster. For longer contexts it never holds the whole matrix in memory."""

BLOCK = 2048
"""A layer processes the sequence in blocks of this many tokens, so that its working set stays in the cache."""

ALL = slice(None)


class Attention(nn.Module):
    """Multi-head attention, whose weights have one slice for each head."""

    W_Q: nn.Parameter
    W_K: nn.Parameter
    W_V: nn.Parameter
    b_Q: nn.Parameter
    b_K: nn.Parameter
    b_V: nn.Parameter

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
        """The queries, keys or values, each [batch, n_heads, n, d_head], from one matrix product."""
        W = torch.cat([getattr(self, f"W_{name}") for name in names])
        b = torch.cat([getattr(self, f"b_{name}") for name in names])
        heads, d, e = W.shape
        flat = F.linear(x, W.transpose(1, 2).reshape(heads * e, d), b.flatten())
        split = flat.view(*x.shape[:2], len(names), heads // len(names), e)
        return split.permute(2, 0, 3, 1, 4).unbind(0)

    def mix(self, x: Float[Tensor, "batch n d_model"], context: int, rows: slice = ALL) -> Tensor:
        """Each head's weighted sum of values, [batch, n, n_heads, d_head], at the tokens in `rows`."""
        if self.config.attention == "linear" and self.config.mask != "causal":
            return self.linear_prefix(x, context)[:, rows]
        q, k, v = self.project(x, "QKV")
        if self.config.attention == "softmax" and x.shape[1] == context <= SHORT:
            return self.among_context(q[:, :, rows], k, v, rows).transpose(1, 2)
        attend = self.linear_causal if self.config.attention == "linear" else self.softmax
        return attend(q, k, v, context).transpose(1, 2)[:, rows]

    def output(self, z: Tensor) -> Float[Tensor, "batch n d_model"]:
        """What the heads add to the residual stream."""
        h, e, d = self.W_O.shape
        W = self.W_O.reshape(h * e, d).mT
        return blockwise(lambda part: F.linear(part.flatten(2), W, self.b_O), z)

    def linear_prefix(self, x: Float[Tensor, "batch n d_model"], context: int) -> Tensor:
        """Σ_i s·(q_j·k_i) v_i, computed as q_j·(s·Σ_i k_i v_iᵀ), which needs no n×n matrix."""
        parts = [summed_products(*self.project(part, "KV")) for part in blocks(x[:, :context])]
        memory = self.config.attn_scale * torch.stack(parts).sum(0)
        z = blockwise(lambda part: (self.project(part, "Q")[0] @ memory).transpose(1, 2), x)
        if self.config.mask != "context":
            z[:, context:] += self.own(*self.project(x[:, context:], "QKV"))
        return z

    def linear_causal(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        """The same under the causal mask; queries come after the context, and read all of it."""
        keys, values = k[:, :, :context], v[:, :, :context]
        scale = self.config.attn_scale
        first = causal_linear(scale * q[:, :, :context], keys, values)
        q, k, v = (t[:, :, context:] for t in (q, k, v))
        rest = q @ (scale * summed_products(keys, values)) + self.own(q, k, v).transpose(1, 2)
        return torch.cat([first, rest], dim=2)

    def writes(self, head: int) -> bool:
        """Whether a head can add anything but zeros to the residual stream."""
        values = bool(self.W_V[head].any() or self.b_V[head].any())
        return values and bool(self.W_O[head].any())

    def own(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What each token reads from itself under linear attention, [batch, n, n_heads, d_head]."""
        score = self.config.attn_scale * (q * k).sum(-1, keepdim=True)
        return (score * v).transpose(1, 2)

    def softmax(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        """Softmax attention: context tokens read the context, and a query reads the context and itself."""
        short = context <= SHORT
        first = self.among_context if short else self.streamed_among_context
        parts = [first(*(t[:, :, :context] for t in (q, k, v)))]
        if q.shape[2] > context:
            rest = self.of_queries if short else self.streamed_of_queries
            parts.append(rest(q[:, :, context:], k, v, context))
        return torch.cat(parts, dim=2)

    def among_context(self, q: Tensor, k: Tensor, v: Tensor, rows: slice = ALL) -> Tensor:
        """The context tokens in `rows` read the context tokens that the mask lets them read."""
        logits = self.config.attn_scale * q @ k.mT
        if self.config.mask == "causal":
            n = k.shape[2]
            logits += q.new_full((n, n), -torch.inf).triu(1)[rows]
        return logits.softmax(-1) @ v

    def of_queries(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        """A query reads the context and, unless the mask is `context`, itself."""
        q = self.config.attn_scale * q
        if self.config.mask == "context":
            return (q @ k[:, :, :context].mT).softmax(-1) @ v[:, :, :context]
        own = (q * k[:, :, context:]).sum(-1, keepdim=True)
        weights = torch.cat([q @ k[:, :, :context].mT, own], dim=-1).softmax(-1)
        from_context = weights[..., :context] @ v[:, :, :context]
        return from_context + weights[..., context:] * v[:, :, context:]

    def streamed_among_context(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        causal, scale = self.config.mask == "causal", self.config.attn_scale
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    def streamed_of_queries(self, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        queries = q.shape[2]
        if self.config.mask == "context":
            k, v = k[:, :, :context], v[:, :, :context]
            return F.scaled_dot_product_attention(q, k, v, scale=self.config.attn_scale)
        visible = torch.ones(queries, context + queries, dtype=torch.bool, device=q.device)
        visible[:, context:] = torch.eye(queries, dtype=torch.bool, device=q.device)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, scale=self.config.attn_scale
        )


def blocks(x: Tensor) -> list[Tensor]:
    """The sequence as views of `BLOCK` tokens each, into which results can be written."""
    return [x[:, start : start + BLOCK] for start in range(0, x.shape[1], BLOCK)]


def blockwise(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Applies a token-wise function to one block of tokens at a time."""
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
    """Σ_i k_i v_iᵀ over the tokens, [batch, heads, d_head, d_head], summed in chunks."""
    whole = k.shape[2] // CHUNK * CHUNK
    rest = k[:, :, whole:].mT @ v[:, :, whole:]
    if whole == 0:
        return rest
    keys, values = (t[:, :, :whole].reshape(*t.shape[:2], -1, CHUNK, t.shape[3]) for t in (k, v))
    return (keys.mT @ values).sum(2) + rest


def causal_linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each token reads the tokens up to itself; all tensors are [batch, heads, n, d_head]."""
    n = q.shape[2]
    q, k, v = (F.pad(t, (0, 0, 0, -n % CHUNK)) for t in (q, k, v))
    q, k, v = (t.view(*t.shape[:2], -1, CHUNK, t.shape[3]) for t in (q, k, v))
    within = (q @ k.mT).tril() @ v
    before = F.pad((k.mT @ v).cumsum(2)[:, :, :-1], (0, 0, 0, 0, 1, 0))
    return (within + q @ before).flatten(2, 3)[:, :, :n]
