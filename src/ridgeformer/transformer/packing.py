"""Forward passes that leave out the zeros of the weights.

The weights of a model may be zero by the row: heads that write nothing, dimensions of a head that no
query asks for, neurons without an input, channels of the residual stream that a layer neither reads nor
writes. `pack` keeps the rest, and `run` sends prompts through it in blocks that fit the cache. Nothing
is remembered from one pass to the next, so that weights may change at any time and in any way.

The stream is kept with its channels first, [d_model, prompts, tokens]: a layer that reads four channels
copies four contiguous rows, and a layer that writes two adds two.

What is left out are products with 0, so that results differ from those of the full shapes by round-off
alone, as long as the stream is finite; 0·∞ is left out as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from ridgeformer.transformer import attention
from ridgeformer.transformer.attention import Attention, summed_products
from ridgeformer.transformer.config import TransformerConfig
from ridgeformer.transformer.threads import in_threads

if TYPE_CHECKING:
    from ridgeformer.transformer.model import MLP, Block

LEAST_NUMBERS = 1 << 17
"""To look for zeros in a layer takes as long as to compute about half as many numbers. A batch for which
a layer computes fewer than these is passed through the full shapes."""

WORTHWHILE = 0.5
"""A model is packed if at most this share of its multiplications remains."""

BLOCK_BYTES = 1 << 21
"""The stream of a block of prompts takes about so much memory. A layer works on a few of its channels,
which fit the cache of a core."""

LEAST_SHARE = 2048
"""A thread gets a part of the batch for itself if there are so many tokens for each thread."""

TOGETHER = 1024
"""Heads are mixed in one matrix product if it has so many entries, or four times those of the heads."""


@dataclass(frozen=True)
class Reads:
    """W x + b at every token, where W has columns for the channels that it reads."""

    channels: Tensor | None
    """None if they are all channels."""
    W: Tensor
    b: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        if self.channels is not None:
            x = x.index_select(0, self.channels)
        return self.W @ x if self.b is None else torch.addmm(self.b, self.W, x)


@dataclass(frozen=True)
class Writes:
    """x ← x + W z + b at every token, where W has rows for the channels that it writes."""

    channels: Tensor | None
    W: Tensor
    b: Tensor | None

    def add(self, x: Tensor, z: Tensor) -> None:
        update = self.W @ z if self.b is None else torch.addmm(self.b, self.W, z)
        if self.channels is None:
            x.add_(update)
        else:
            x.index_add_(0, self.channels, update)


@dataclass(frozen=True)
class Heads:
    """One head, or several that are mixed together."""

    keys: slice
    """Where their dimensions are among all dimensions of queries, and of keys."""
    values: slice
    apart: Tensor | None = None
    """Of several heads: whether a dimension of keys and one of values belong to different heads."""
    same: Tensor | None = None
    """Of several heads: 1 where a dimension of values and one of keys belong to the same head."""


@dataclass(frozen=True)
class PackedAttention:
    """The heads of an attention layer, and the dimensions of each, that are not zero."""

    layer: Attention
    project: Reads
    """All queries, then all keys, then all values."""
    sizes: list[int]
    heads: tuple[Heads, ...]
    output: Writes

    def add(self, x: Tensor, normed: Tensor, shape: tuple[int, int], context: int) -> None:
        """Adds to the stream x what the heads read in `normed`; both are [d_model, prompts · tokens]."""
        parts = [self.project(part) for part in torch.split(normed, attention.BLOCK, 1)]
        projected = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        q, k, v = torch.split(projected.view(-1, *shape), self.sizes)
        mix = self.mix_prefix if mixes_by_memory(self.layer) else self.mix
        z = [
            mix(heads, q[heads.keys], k[heads.keys], v[heads.values], context)
            for heads in self.heads
        ]
        together = z[0] if len(z) == 1 else torch.cat([*z, v[:0]])
        self.output.add(x, together.reshape(self.sizes[2], x.shape[1]))

    def mix_prefix(self, heads: Heads, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        """`Attention.linear_prefix` with dimensions first, [dimensions, prompts, tokens]."""
        keys, values = (t[:, :, :context].permute(1, 2, 0).unsqueeze(1) for t in (k, v))
        parts = [
            summed_products(*part)
            for part in zip(
                *(torch.split(t, attention.BLOCK, 2) for t in (keys, values)), strict=True
            )
        ]
        memory = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
        memory = self.layer.config.attn_scale * memory.squeeze(1)
        if heads.apart is not None:
            # They are not multiplied by 0, since they may overflow where the products of no head do.
            memory.masked_fill_(heads.apart, 0)
        z = torch.bmm(memory.mT, q.transpose(0, 1)).transpose(0, 1)
        if q.shape[2] > context and self.layer.config.mask != "context":
            z[:, :, context:] += self.own(heads, *(t[:, :, context:] for t in (q, k, v)))
        return z

    def own(self, heads: Heads, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What each query reads from itself under linear attention."""
        products = self.layer.config.attn_scale * (q * k)
        if heads.same is None:
            return products.sum(0, keepdim=True) * v
        return (heads.same @ products.flatten(1)).view_as(v) * v

    def mix(self, heads: Heads, q: Tensor, k: Tensor, v: Tensor, context: int) -> Tensor:
        """The layer's own attention, for one head."""
        q, k, v = (t.permute(1, 2, 0).unsqueeze(1) for t in (q, k, v))
        size = v.shape[3]
        if self.layer.config.attention == "linear":
            z = self.layer.linear_causal(q, k, v, context)
        else:
            if context > attention.SHORT:  # else PyTorch would form the matrix of weights
                width = max(q.shape[3], size)
                q, k, v = (F.pad(t, (0, width - t.shape[3])).contiguous() for t in (q, k, v))
            z = self.layer.softmax(q, k, v, context)[..., :size]
        return z.squeeze(1).permute(2, 0, 1)


@dataclass(frozen=True)
class PackedMLP:
    """The neurons of an MLP that are not zero."""

    kind: str
    neurons: int
    hidden: Reads
    """If the MLP is gated, all gates, and then what they multiply."""
    output: Writes

    def add(self, x: Tensor, normed: Tensor) -> None:
        """Adds to the stream x what the neurons make of `normed`; both are [d_model, prompts · tokens]."""
        for part, read in zip(
            *(torch.split(t, attention.BLOCK, 1) for t in (x, normed)), strict=True
        ):
            hidden = self.hidden(read)
            if self.kind in ("gelu", "gelu_new"):
                hidden = F.gelu(hidden, approximate="none" if self.kind == "gelu" else "tanh")
            else:
                hidden[: self.neurons].relu_()
                if self.kind == "reglu":
                    hidden = hidden[: self.neurons] * hidden[self.neurons :]
            self.output.add(part, hidden)


@dataclass(frozen=True)
class PackedBlock:
    """A block, and what is left of its parts; None if nothing is."""

    block: Block
    attn: PackedAttention | None
    mlp: PackedMLP | None

    def multiplications(self) -> int:
        """Multiplications by weights that are left for each token."""
        maps: list[Reads | Writes] = []
        if self.attn is not None:
            maps += [self.attn.project, self.attn.output]
        if self.mlp is not None:
            maps += [self.mlp.hidden, self.mlp.output]
        return sum(one.W.numel() for one in maps)

    def apply(self, x: Tensor, context: int) -> None:
        """Changes the stream x, [d_model, prompts, tokens], as the block does."""
        flat, normed = x.flatten(1), self.block.normed
        if self.attn is not None:
            read = self.block.ln1(flat.mT).mT if normed else flat
            self.attn.add(flat, read, (x.shape[1], x.shape[2]), context)
        if self.mlp is not None:
            self.mlp.add(flat, self.block.ln2(flat.mT).mT if normed else flat)


def used(block: Block) -> tuple[Tensor, Tensor, Tensor]:
    """The dimensions of keys and of values, [n_heads, d_head], and the neurons that are not zero.

    A dimension or a neuron that is a constant counts as one that is not zero.
    """
    attn, mlp = block.attn, block.mlp
    q, k, v = (
        getattr(attn, f"W_{name}").any(1).logical_or_(getattr(attn, f"b_{name}")) for name in "QKV"
    )
    keys, values = q & k, v & attn.W_O.any(2)
    heads = values.any(1, keepdim=True)
    if attn.config.attention == "linear":  # without keys, softmax attention takes the mean
        heads = heads & keys.any(1, keepdim=True)
    neurons = mlp.W_in.any(0).logical_or_(mlp.b_in) & mlp.W_out.any(1)
    if mlp.kind == "reglu":
        neurons &= mlp.W_gate.any(0).logical_or_(mlp.b_gate)
    return keys & heads, values & heads, neurons


def looks_dense(block: Block) -> bool:
    """A glance at a block, which trained models pay instead of a search through all of their weights.

    Values and neurons that read and write the first channel are not zero.
    """
    values = block.attn.W_V[:, 0] * block.attn.W_O[:, :, 0]
    seen = torch.cat([values.flatten(), block.mlp.W_in[0] * block.mlp.W_out[:, 0]])
    return int(seen.count_nonzero()) > WORTHWHILE * len(seen)


def mixes_by_memory(layer: Attention) -> bool:
    return layer.config.attention == "linear" and layer.config.mask != "causal"


def pack_attention(layer: Attention, keys: Tensor, values: Tensor) -> PackedAttention | None:
    """The dimensions of keys and values that are named, head by head."""
    (of_key, key), (of_value, value) = (t.nonzero(as_tuple=True) for t in (keys, values))
    output = writes(layer.W_O[of_value, value].mT, layer.b_O)
    if output is None:
        return None
    rows = [layer.W_Q[of_key, :, key], layer.W_K[of_key, :, key], layer.W_V[of_value, :, value]]
    biases = [layer.b_Q[of_key, key], layer.b_K[of_key, key], layer.b_V[of_value, value]]
    counts = list(zip(keys.sum(1).tolist(), values.sum(1).tolist(), strict=True))
    heads = separate(counts)
    if len(heads) > 1 and mixes_by_memory(layer):
        entries = sum(e * f for e, f in counts)
        if len(key) * len(value) <= max(TOGETHER, 4 * entries):
            apart = of_key[:, None] != of_value
            same = apart.logical_not().mT.to(layer.W_Q.dtype)
            heads = (Heads(slice(None), slice(None), apart, same),)
    sizes = [len(key), len(key), len(value)]
    return PackedAttention(layer, reads(torch.cat(rows), torch.cat(biases)), sizes, heads, output)


def separate(counts: Sequence[tuple[int, int]]) -> tuple[Heads, ...]:
    """A head at a time, from the numbers of dimensions that each has; those without values are left out."""
    ends = zip(*(accumulate(numbers) for numbers in zip(*counts, strict=True)), strict=True)
    return tuple(
        Heads(slice(key - e, key), slice(value - f, value))
        for (e, f), (key, value) in zip(counts, ends, strict=True)
        if f
    )


def pack_mlp(mlp: MLP, neurons: Tensor) -> PackedMLP | None:
    kept = neurons.nonzero().squeeze(1)
    output = writes(mlp.W_out.index_select(0, kept).mT, mlp.b_out)
    if output is None:
        return None
    W, b = mlp.W_in.mT.index_select(0, kept), mlp.b_in[kept]
    if mlp.kind == "reglu":
        W = torch.cat([mlp.W_gate.mT.index_select(0, kept), W])
        b = torch.cat([mlp.b_gate[kept], b])
    return PackedMLP(mlp.kind, len(kept), reads(W, b), output)


def some(channels: Tensor) -> Tensor | None:
    """The channels that are marked, or None for all if leaving out the others would save little."""
    kept = channels.nonzero().squeeze(1)
    return kept if 4 * len(kept) <= 3 * len(channels) else None


def reads(W: Tensor, b: Tensor) -> Reads:
    channels = some(W.any(0))
    kept = W if channels is None else W.index_select(1, channels)
    return Reads(channels, kept, b[:, None] if b.any() else None)


def writes(W: Tensor, b: Tensor) -> Writes | None:
    """None if nothing is written."""
    channels, biased = some(W.any(1).logical_or_(b)), bool(b.any())
    if channels is not None:
        if not len(channels):
            return None
        W, b = W.index_select(0, channels), b[channels]
    return Writes(channels, W.contiguous(), b[:, None] if biased else None)


def only_numbers(tokens: Tensor) -> bool:
    """Whether a pass is for its numbers alone: on a CPU, without gradients, traced by nobody."""
    return not (
        torch.is_grad_enabled()
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")
        or tokens.device.type != "cpu"
    )


def pack(block: Block) -> PackedBlock:
    """The block without what is zero in it."""
    keys, values, neurons = used(block)
    return PackedBlock(
        block, pack_attention(block.attn, keys, values), pack_mlp(block.mlp, neurons)
    )


def pack_all(blocks: dict[int, Block], config: TransformerConfig) -> dict[int, PackedBlock] | None:
    """The blocks without what is zero in them, or None if that would not save enough."""
    neuron = 3 if config.mlp == "reglu" else 2
    full = config.d_model * (4 * config.n_heads * config.d_head + neuron * config.d_mlp)
    packed, left = {}, 0
    for layer, block in blocks.items():
        packed[layer] = pack(block)
        left += packed[layer].multiplications()
        if left > WORTHWHILE * full * len(blocks):
            return None
    return packed


def enough(tokens: Tensor, config: TransformerConfig, repeats: float) -> bool:
    """Whether a pass of the tokens through blocks that are applied so often may be worth a packing."""
    each = 3 * config.n_heads * config.d_head + config.d_mlp + 2 * config.d_model
    return tokens.shape[0] * tokens.shape[1] * each * repeats >= LEAST_NUMBERS


def run(
    blocks: Sequence[PackedBlock],
    embed: Callable[[Tensor], Tensor],
    tokens: Tensor,
    context: int,
    rows: slice,
) -> Tensor:
    """Sends prompts through the blocks, and gives the rows of the residual stream that are asked for.

    `embed` gives the stream before the first block. Registers count among its rows and in `context`.
    """

    def through(part: Tensor) -> Tensor:
        x = embed(part).permute(2, 0, 1).contiguous()
        for block in blocks:
            block.apply(x, context)
        return x[:, :, rows].permute(1, 2, 0).contiguous()

    batch, one = len(tokens), embed(tokens[:1])
    n, size = one.shape[1], max(1, BLOCK_BYTES // one.nbytes)
    threads = min(torch.get_num_threads(), batch, batch * n // LEAST_SHARE)
    if threads > 1:  # as many blocks as there are threads, or a multiple of it
        rounds = -(-batch // (size * threads))
        size = -(-batch // (rounds * threads))
    parts = in_threads(through, torch.split(tokens, size), max(threads, 1))
    return parts[0] if len(parts) == 1 else torch.cat(parts)
