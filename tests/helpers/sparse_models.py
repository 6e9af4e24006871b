"""Random models with many zeros in their weights, which packing leaves out."""

import torch

from ridgeformer.transformer import Record, Transformer

BASE = {"d_in": 6, "d_out": 2, "d_model": 12, "n_layers": 3, "n_heads": 3, "d_head": 4, "d_mlp": 10,
        "attn_scale": 0.03, "max_tokens": 64}  # fmt: skip
FULL = Record.of([])
"""Any edit or record, also of nothing, makes a pass take the full shapes."""
TOLERANCE = {"float64": 1e-12, "float32": 1e-4}


def sparse_model(config, seed=0):
    """A random model in which heads, dimensions, neurons, channels and biases are zero here and there."""
    g = torch.Generator().manual_seed(seed)

    def zero_rows(tensors, dim, share):
        for tensor in tensors:
            gone = torch.rand(tensor.shape[dim], generator=g) < share
            tensor.index_fill_(dim, gone.nonzero().squeeze(1), 0)

    model = Transformer(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=g) + (weight.ndim == 1) * 0.1)
        for block in model.blocks:
            attn, mlp = block.attn, block.mlp
            projections = [attn.W_Q, attn.W_K, attn.W_V]
            gates = [mlp.W_gate, mlp.b_gate] if config.mlp == "reglu" else []
            zero_rows([*projections, attn.W_O, attn.b_Q, attn.b_K, attn.b_V], 0, 0.15)  # heads
            zero_rows([*projections, attn.b_Q, attn.b_K, attn.b_V], -1, 0.2)
            zero_rows([attn.W_O], 1, 0.2)
            zero_rows([mlp.W_in, mlp.b_in, *gates, mlp.W_out.mT], -1, 0.2)  # neurons
            zero_rows([*projections, mlp.W_in, *gates[:1], attn.W_O.mT, mlp.W_out.mT], -2, 0.3)
            for bias in (attn.b_Q, attn.b_K, attn.b_V, attn.b_O, mlp.b_in, mlp.b_out):
                bias.mul_(torch.rand(1, generator=g) < 0.5)
    return model


def random_tokens(config, seed=0, batch=3, n=9):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, config.d_in, generator=g, dtype=config.torch_dtype)


def is_packed(model, tokens):
    return model.packed(tokens, model.config.applied()) is not None


def assert_same(found, expected, config):
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[config.dtype] * scale)
