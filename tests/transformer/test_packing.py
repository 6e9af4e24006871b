"""Passes without the zeros of the weights: the numbers of the full shapes, and never stale ones."""

import gc
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_models import BASE, FULL, assert_same, is_packed, random_tokens, sparse_model
from torch.autograd import forward_ad
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode

from ridgeformer.transformer import (
    Record,
    Transformer,
    TransformerConfig,
    ablate,
    attention,
    packing,
)

pytestmark = pytest.mark.usefixtures("unchecked", "pack_always")

CHOICES = {
    "attention": ["linear", "softmax"],
    "mlp": ["relu", "gelu", "gelu_new", "reglu"],
    "norm": ["none", "layernorm", "rmsnorm"],
    "mask": ["prefix", "causal", "context"],
    "positional": ["none", "learned", "sinusoidal"],
    "n_registers": [0, 3],
    "loop": [None, (1, 3)],
    "dtype": ["float64", "float32"],
}
configs = st.fixed_dictionaries({k: st.sampled_from(v) for k, v in CHOICES.items()}).map(
    lambda chosen: TransformerConfig(**BASE, **chosen)
)


@pytest.mark.portable
@settings(max_examples=60)
@given(configs, st.integers(0, 2**20), st.integers(1, 9))
def test_packed_equals_full(config, seed, context):
    model, tokens = sparse_model(config, seed), random_tokens(config, seed)
    loops = 1 if config.loop is None or config.norm == "none" else seed % 4
    with torch.inference_mode():
        assert is_packed(model, tokens)
        found = model.residual_stream(tokens, context, loops=loops)
        assert_same(found, model.residual_stream(tokens, context, [FULL], loops=loops), config)
        some = model.residual_stream(tokens, context, rows=slice(1, None, 2), loops=loops)
        assert_same(some, found[:, 1::2], config)
        assert some.is_contiguous()


@settings(max_examples=40)
@given(configs, st.integers(0, 2**20))
def test_packed_equals_full_in_blocks_of_tokens_and_chunks(config, seed):
    """The paths of long prompts: blocks of tokens, and streamed softmax attention."""
    model, tokens = sparse_model(config, seed), random_tokens(config, seed, batch=2, n=50)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        for name, value in (("BLOCK", 16), ("CHUNK", 4), ("SHORT", 0)):
            patch.setattr(f"ridgeformer.transformer.attention.{name}", value)
        patch.setattr(packing, "BLOCK_BYTES", 1)  # one prompt at a time
        found = model(tokens, 47)
        assert_same(found, model(tokens, 47, [FULL]), config)


@settings(max_examples=40)
@given(configs, st.integers(0, 2**20), st.floats(-1e6, 1e6))
def test_no_query_touches_any_bit_of_the_context(config, seed, size):
    model, tokens = sparse_model(config, seed), random_tokens(config, seed)
    changed = tokens.clone()
    changed[:, 6:] = tokens[:, 6:] * size + 1
    context = slice(0, config.n_registers + 6)
    with torch.inference_mode():
        before, after = (model.residual_stream(t, 6) for t in (tokens, changed))
        assert torch.equal(before[:, context], after[:, context])
        assert not torch.equal(before, after)


@settings(max_examples=40)
@given(configs, st.integers(0, 2**20))
def test_each_query_is_answered_as_if_alone(config, seed):
    if config.positional != "none":  # positions differ by design
        return
    model, tokens = sparse_model(config, seed), random_tokens(config, seed)
    with torch.no_grad():
        together = model(tokens, 7)
        alone = [model(torch.cat([tokens[:, :7], tokens[:, i : i + 1]], 1), 7) for i in (7, 8)]
    assert_same(torch.cat(alone, dim=1), together, config)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_weights_may_change_in_any_way(attention):
    """Also through NumPy, which PyTorch's version counters do not see, and in what was zero before."""
    config = TransformerConfig(**BASE, attention=attention, dtype="float64")
    model, tokens = Transformer(config), random_tokens(config)
    with torch.inference_mode():
        for weight in (model.blocks[1].attn.W_V, model.blocks[1].mlp.W_out):
            weight.zero_()
        before = model(tokens, 7)
        for name in ("attn.W_V", "mlp.W_out", "attn.W_Q", "ln1.w"):
            weight = model.get_parameter(f"blocks.1.{name}")
            version = weight.detach().numpy()
            version[..., 0] += 1.0
            after = model(tokens, 7)
            assert not torch.equal(after, before), name
            assert_same(after, model(tokens, 7, [FULL]), config)
            before = after


class Elsewhere(Exception):
    """Raised where a pass must not come."""


def never(*arguments):
    raise Elsewhere


def test_gradients_edits_and_whoever_looks_inside_see_the_full_shapes(monkeypatch):
    config = TransformerConfig(**BASE, attention="linear", dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config)
    monkeypatch.setattr(packing, "run", never)
    with torch.no_grad(), pytest.raises(Elsewhere):
        model(tokens, 7)
    model(tokens, 7).sum().backward()
    assert all(w.grad is not None for name, w in model.named_parameters() if "unembed" not in name)
    with torch.no_grad():
        record = Record.of(["blocks.1.attn.z"])
        model(tokens, 7, [record])
        assert record.values["blocks.1.attn.z"].shape == (3, 9, 3, 4)
        model(tokens, 7, [ablate("blocks.1.mlp_out")])
        with forward_ad.dual_level():
            model(forward_ad.make_dual(tokens, torch.ones_like(tokens)), 7)
        torch.func.vmap(lambda t: model(t[None], 7))(tokens)
        with FlopCounterMode(display=False):
            model(tokens, 7)
        with torch.autocast("cpu", torch.bfloat16):
            assert not packing.only_numbers(tokens)
        for module in (model.embed, model.blocks[2], model.blocks[0].mlp, model.blocks[1].ln2):
            seen = []
            hook = module.register_forward_hook(lambda m, i, out, seen=seen: seen.append(out.shape))
            model(tokens, 7)
            hook.remove()
            assert seen[0][:2] == (3, 9)
        with pytest.raises(Elsewhere):
            model(tokens, 7)


def test_parts_of_other_classes_are_asked_themselves(monkeypatch):
    config = TransformerConfig(**BASE, dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config)
    with torch.no_grad():
        before = model(tokens, 7)
        model.blocks[1].mlp = torch.nn.Identity()
        assert not torch.allclose(model(tokens, 7), before)
        again = sparse_model(config)
        parametrize.register_parametrization(again.blocks[1].attn, "W_V", torch.nn.Softplus())
        assert not is_packed(again, tokens)
        again(tokens, 7)


@pytest.mark.parametrize("mlp", ["relu", "gelu", "reglu"])
@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_constants_count(attention, mlp):
    """Neurons, keys and values that are biases alone, heads without keys, and layers without heads."""
    config = TransformerConfig(**BASE, attention=attention, mlp=mlp, norm="none", dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config)
    with torch.inference_mode():
        for name in ("mlp.W_in", "attn.W_K", "attn.b_O", "mlp.b_out"):
            model.get_parameter(f"blocks.0.{name}").zero_()
        for name in ("mlp.b_in", "attn.b_K", "attn.b_V"):
            model.get_parameter(f"blocks.0.{name}").fill_(0.7)
        model.blocks[1].attn.W_Q.zero_()
        model.blocks[1].attn.b_Q.zero_()
        model.blocks[2].attn.W_O.zero_()
        model.blocks[2].mlp.W_out.zero_()
        model.blocks[2].attn.b_O.fill_(0.5)
        model.blocks[2].mlp.b_out.fill_(0.25)
        attn = packing.pack(model.blocks[1]).attn
        assert (attn is None or not attn.heads) == (attention == "linear")
        assert_same(model(tokens, 7), model(tokens, 7, [FULL]), config)
        for bias in ("attn.b_O", "mlp.b_out"):
            model.get_parameter(f"blocks.2.{bias}").zero_()
        empty = packing.pack(model.blocks[2])
        assert empty.attn is None
        assert empty.mlp is None
        assert_same(model(tokens, 7), model(tokens, 7, [FULL]), config)


def test_what_is_left_has_the_size_of_what_is_not_zero():
    config = TransformerConfig(**BASE, attention="linear", mlp="relu", norm="none", dtype="float64")
    model = Transformer(config, init="zero")
    with torch.no_grad():
        attn, mlp = model.blocks[0].attn, model.blocks[0].mlp
        attn.W_Q[1, 3, 0] = attn.W_K[1, 4, 0] = attn.W_V[1, 5, 2] = attn.W_O[1, 2, 6] = 1
        attn.W_V[0, 5, 1] = attn.W_O[0, 1, 6] = 1  # without keys
        attn.W_Q[2, 5, 1] = attn.W_K[2, 5, 1] = 1  # without values
        mlp.W_in[2, :3] = mlp.W_out[:2, 9] = 1  # the third neuron writes nothing
        packed = packing.pack(model.blocks[0])
    assert packed.attn.sizes == [1, 1, 1]
    assert packed.attn.project.channels.tolist() == [3, 4, 5]
    assert packed.attn.output.channels.tolist() == [6]
    assert packed.mlp.neurons == 2
    assert packed.multiplications() == 3 * 3 + 1 + 2 + 2


def test_heads_are_mixed_together_where_that_is_cheap(monkeypatch):
    config = TransformerConfig(**BASE, attention="linear", norm="none", dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config)
    with torch.inference_mode():
        monkeypatch.setattr(packing, "TOGETHER", 0)
        many = replace(config, n_heads=8)
        assert len(packing.pack(Transformer(many).blocks[0]).attn.heads) == 8
        apart = model(tokens, 7)
        monkeypatch.setattr(packing, "TOGETHER", 1024)
        assert len(packing.pack(Transformer(many).blocks[0]).attn.heads) == 1
        assert_same(apart, model(tokens, 7), config)


def test_no_product_between_heads_overflows_into_one():
    """Keys of one head and values of another: their products are beyond all numbers, and not asked for."""
    config = TransformerConfig(
        **{**BASE, "n_layers": 1}, attention="linear", norm="none", mlp="relu", dtype="float32"
    )
    model = Transformer(config, init="zero")
    tokens = random_tokens(config)
    with torch.inference_mode():
        model.embed.W[:, :6] = torch.eye(6)
        attn = model.blocks[0].attn
        for head, (key, value) in enumerate([(1e25, 1e-25), (1e-25, 1e25)]):
            attn.W_Q[head, 0, 0], attn.W_O[head, 0, 7 + head] = 1, 1
            attn.W_K[head, 1, 0], attn.W_V[head, 2, 0] = key, value
        found = model.residual_stream(tokens, 7)
        assert found.isfinite().all()
        assert found[..., 7:9].all()
        torch.testing.assert_close(found, model.residual_stream(tokens, 7, [FULL]))


@pytest.mark.portable
def test_long_sums_lose_no_more_digits():
    """Ones after 2²⁴, beside which a float32 cannot hold them: sums of chunks can be added exactly."""
    config = TransformerConfig(
        **{**BASE, "n_layers": 1, "n_heads": 1, "attn_scale": 1.0},
        attention="linear", norm="none", mlp="relu", dtype="float32",
    )  # fmt: skip
    model = Transformer(config, init="zero")
    n = 5 * attention.BLOCK
    tokens = torch.zeros(2, n + 1, 6)
    tokens[:, 0, 0], tokens[:, attention.CHUNK : n, 0], tokens[..., 1] = 2.0**24, 1.0, 1.0
    with torch.inference_mode():
        model.embed.W[:2, :2] = model.unembed.W[2:4] = torch.eye(2)
        attn = model.blocks[0].attn
        attn.W_Q[0, 1, 0] = attn.W_K[0, 1, 0] = attn.W_V[0, 0, 0] = attn.W_O[0, 0, 2] = 1
        for edits in ([FULL], ()):
            found = model(tokens, n, edits)[..., 0]
            assert found.tolist() == [[2.0**24 + n - attention.CHUNK]] * 2


def test_long_softmax_attention_is_streamed(monkeypatch):
    """PyTorch streams rows of one size without gaps, and forms the matrix of weights for others."""
    config = TransformerConfig(**BASE, attention="softmax", dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config, n=40)
    stream = torch.nn.functional.scaled_dot_product_attention
    shapes = []

    def watched(q, k, v, **options):
        shapes.append((q.shape[3], k.shape[3], v.shape[3]))
        assert q.stride(3) == k.stride(3) == v.stride(3) == 1
        return stream(q, k, v, **options)

    monkeypatch.setattr("ridgeformer.transformer.attention.SHORT", 0)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    with torch.inference_mode():
        found = model(tokens, 38)
        assert all(q == k == v for q, k, v in shapes)
        assert min(shapes)[0] < config.d_head
        assert_same(found, model(tokens, 38, [FULL]), config)


def test_linear_attention_never_forms_the_square_matrix():
    """65,536 tokens squared would be 34 GB in one head."""
    config = TransformerConfig(**BASE, attention="linear", norm="none", dtype="float64")
    with torch.inference_mode():
        out = sparse_model(config)(random_tokens(config, batch=1, n=65536), 65534)
    assert out.shape == (1, 2, 2)


def test_nothing_is_kept_between_passes():
    config = TransformerConfig(**BASE, dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config)
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}

    def tensors():
        gc.collect()
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    with torch.inference_mode():
        model(tokens, 7)
        before = tensors()
        for _ in range(3):
            model(tokens, 7)
        assert tensors() == before
    assert attributes == {name: set(vars(module)) for name, module in model.named_modules()}


def test_dense_models_and_small_batches_are_left_as_they_are(monkeypatch):
    monkeypatch.undo()
    config = TransformerConfig(**BASE, dtype="float64")
    dense, sparse = Transformer(config), Transformer(config)
    with torch.inference_mode():
        for block in sparse.blocks:
            block.mlp.W_in[:, 2:] = block.attn.W_O[1:] = 0
        few, many = random_tokens(config), random_tokens(config, batch=1000)
        assert is_packed(sparse, many)
        assert not is_packed(sparse, few)
        mostly = Transformer(config)
        for block in mostly.blocks:
            block.mlp.W_in[0] = block.attn.W_V[:, 0] = 0  # deceives a glance
        assert not is_packed(mostly, many)
        monkeypatch.setattr(packing, "pack_all", never)
        assert not is_packed(dense, many)  # a glance is enough
