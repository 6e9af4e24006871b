"""The generic transformer: no leak, linear cost, edits, and the same numbers in NumPy."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy_executor import run

from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.transformer import (
    Edit,
    Record,
    Transformer,
    TransformerConfig,
    ablate,
    ablate_head,
    patch,
    save,
)
from ridgeformer.types import Refusal

BASE = {
    "d_in": 3 + 2 + 3, "d_out": 2, "d_model": 12, "n_layers": 3, "n_heads": 2,
    "d_head": 5, "d_mlp": 16, "dtype": "float64", "max_tokens": 64,
}  # fmt: skip
CHOICES = {
    "attention": ["linear", "softmax"],
    "mlp": ["relu", "gelu", "gelu_new", "reglu"],
    "norm": ["none", "layernorm", "rmsnorm"],
    "mask": ["prefix", "causal", "context"],
    "positional": ["none", "learned", "sinusoidal"],
    "n_registers": [0, 3],
    "loop": [None, (1, 3)],
}
configs = st.fixed_dictionaries({k: st.sampled_from(v) for k, v in CHOICES.items()}).map(
    lambda chosen: TransformerConfig(**BASE, attn_scale=0.3, **chosen)
)


def random_model(config, seed=0):
    torch.manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for weight in model.parameters():  # biases and gains too: zeros would hide mistakes
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def random_prompt(seed, k=9, q=3):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    return Prompt(draw(2, k, 3), draw(2, k, 2), draw(2, q, 3))


def all_states(model, prompt):
    names = ["embed"] + [
        f"blocks.{layer}.{name}"
        for layer in range(model.config.n_layers)
        for name in ("attn.z", "resid_mid", "resid_post")
    ]
    record = Record.of(names)
    with torch.no_grad():
        model(prompt.tokens(), prompt.supports + 1, [record])
    return record.values


def assert_no_leak(model, prompt, other_queries):
    changed = Prompt(prompt.phi, prompt.y, other_queries)
    before, after = all_states(model, prompt), all_states(model, changed)
    context = model.config.n_registers + prompt.supports + 1
    for site, value in before.items():
        assert torch.equal(value[:, :context], after[site][:, :context]), site
    assert not torch.equal(before["embed"][:, context:], after["embed"][:, context:])


@given(configs, st.integers(0, 2**20), st.floats(-1e6, 1e6))
def test_no_query_touches_any_bit_of_the_context(config, seed, size):
    prompt = random_prompt(seed, k=2 + seed % 20)
    assert_no_leak(random_model(config, seed), prompt, prompt.phi_query * size + 1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["cg", "chebyshev"])
def test_no_query_touches_the_context_of_a_compiled_model(name, causal):
    task = PrescribedSpectrum(features=3, supports=9, outputs=2, condition=20, queries=3)
    model = compile(
        make_solver(name), features=3, outputs=2, steps=3, ridge=1.0,
        to=LinearAttention(task.max_eigenvalue, causal=causal),
    )  # fmt: skip
    prompt = task.draw(2, seed=0)
    assert_no_leak(model.transformer, prompt, 100 * prompt.phi_query - 3)


@given(configs, st.integers(0, 2**20))
def test_each_query_is_answered_as_if_alone(config, seed):
    if config.positional != "none":  # positions differ by design
        return
    model, prompt = random_model(config, seed), random_prompt(seed)
    with torch.no_grad():
        together = model(prompt.tokens(), 10)
        alone = [
            model(Prompt(prompt.phi, prompt.y, prompt.phi_query[:, i : i + 1]).tokens(), 10)
            for i in range(3)
        ]
    torch.testing.assert_close(together, torch.cat(alone, dim=1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [9, 300])  # 300 tokens are attended to without a matrix of weights
@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_under_the_context_mask_a_query_does_not_read_itself(attention, k):
    """Under the prefix mask it does, and only rows of queries differ."""
    config = TransformerConfig(**BASE, attn_scale=0.3, attention=attention, mask="context")
    model, prompt = random_model(config), random_prompt(0, k=k)
    context = k + 1
    with torch.no_grad():
        x = model.embedded(prompt.tokens())
        attn = model.blocks[0].attn
        q, keys, values = attn.project(x, "QKV")
        scores = 0.3 * q @ keys[:, :, :context].mT
        weights = scores.softmax(-1) if attention == "softmax" else scores
        expected = (weights @ values[:, :, :context]).transpose(1, 2)
        torch.testing.assert_close(attn.mix(x, context), expected)
        reading = Transformer(replace(config, mask="prefix"))
        reading.load_state_dict(model.state_dict())
        other = reading.blocks[0].attn.mix(x, context)
    torch.testing.assert_close(other[:, :context], expected[:, :context])
    assert not torch.allclose(other[:, context:], expected[:, context:], rtol=1e-3)


@given(configs, st.integers(0, 2**20))
def test_numpy_gives_the_same_predictions(tmp_path_factory, config, seed):
    directory = tmp_path_factory.mktemp("model") / "m"
    model, prompt = random_model(config, seed), random_prompt(seed, k=70)
    if config.positional == "learned":
        prompt = random_prompt(seed, k=40)
    save(model, directory)
    # Without a norm, random weights grow beyond all numbers when they are applied again.
    loops = 1 if config.loop is None or config.norm == "none" else seed % 4
    with torch.no_grad():
        found = model(prompt.tokens(), prompt.supports + 1, loops=loops).numpy()
    arrays = (x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query))
    expected = run(directory, *arrays, loops=loops)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("mask", ["prefix", "causal"])
def test_streamed_softmax_attention_is_the_same(mask, monkeypatch):
    model = random_model(TransformerConfig(**BASE, mask=mask))
    prompt = random_prompt(0, k=40, q=5)
    formed = model(prompt.tokens(), 41)
    monkeypatch.setattr("ridgeformer.transformer.attention.SHORT", 0)
    streamed = model(prompt.tokens(), 41)
    assert not streamed.equal(formed)  # else both were the same path
    torch.testing.assert_close(streamed, formed, rtol=1e-12, atol=1e-12)


@given(configs, st.sampled_from([6, 13]), st.sampled_from([0, 1]))
def test_some_rows_of_the_last_block_are_those_of_all(config, context, layers):
    model = random_model(replace(config, n_layers=layers, loop=None))
    tokens = random_prompt(0).tokens()
    some = model.residual_stream(tokens, context, rows=slice(1, None, 2))
    torch.testing.assert_close(some, model.residual_stream(tokens, context)[:, 1::2])


def unrolled(model, loops):
    """The model without a loop that has the blocks of the loop once for each time."""
    applied = model.config.applied(loops)
    long = Transformer(replace(model.config, n_layers=len(applied), loop=None), init="zero")
    long.load_state_dict({n: w for n, w in model.state_dict().items() if "blocks" not in n}, False)
    for block, layer in zip(long.blocks, applied, strict=True):
        block.load_state_dict(model.blocks[layer].state_dict())
    return long


@pytest.mark.parametrize("loops", [0, 1, 5])
def test_a_loop_is_its_blocks_one_after_the_other(loops):
    model = random_model(TransformerConfig(**BASE, loop=(1, 2), n_registers=2))
    tokens, long = random_prompt(0).tokens(), unrolled(model, loops)
    assert len(long.blocks) == 2 + loops
    with torch.no_grad():
        assert torch.equal(model(tokens, 10, loops=loops), long(tokens, 10))
        if loops:  # edits reach one pass of the loop, and are numbered as the unrolled blocks
            edit = [ablate_head(loops, 1)]
            edited = model(tokens, 10, edit, loops=loops)
            assert torch.equal(edited, long(tokens, 10, edit))
            assert not torch.equal(edited, model(tokens, 10, loops=loops))


def test_registers_are_read_like_context_tokens():
    """A model whose embedding makes tokens equal to its registers gives the same without them."""
    config = TransformerConfig(**BASE, n_registers=2, attention="linear")
    model, tokens = random_model(config), random_prompt(0).tokens()
    plain = Transformer(replace(config, n_registers=0), init="zero")
    plain.load_state_dict({n: w for n, w in model.state_dict().items() if n != "registers"})
    rows = torch.linalg.lstsq(
        model.embed.W.mT.detach(), (model.registers - model.embed.b).mT.detach()
    )
    expressible = model.embed(rows.solution.mT)
    with torch.no_grad():
        model.registers.copy_(expressible)
        before = torch.cat([rows.solution.mT.expand(2, -1, -1), tokens], dim=1)
        torch.testing.assert_close(model(tokens, 10), plain(before, 12), rtol=1e-10, atol=1e-12)
        assert not torch.allclose(model(tokens, 10), plain(tokens, 10), rtol=1e-3)


@pytest.mark.parametrize("loop", [[2, 2], [0, 4], [-1, 2], [1], [1, 2.5], "all", 3])
def test_an_impossible_loop_is_refused(loop):
    with pytest.raises(Refusal, match=r"loop must be \[first, stop\]"):
        TransformerConfig.from_dict({**BASE, "loop": loop})


def test_a_loop_is_read_from_a_file_as_it_was_written():
    config = TransformerConfig(**BASE, loop=(1, 2), n_registers=4)
    written = json.loads(json.dumps(config.to_dict()))
    assert TransformerConfig.from_dict(written) == config


def test_a_model_without_a_loop_refuses_to_loop():
    model, tokens = random_model(TransformerConfig(**BASE)), random_prompt(0).tokens()
    with pytest.raises(Refusal, match="has no loop"):
        model(tokens, 10, loops=2)
    looped = random_model(TransformerConfig(**BASE, loop=(0, 1)))
    with pytest.raises(Refusal, match="≥ 0; got -1"):
        looped(tokens, 10, loops=-1)


def test_a_model_without_mlp_can_be_drawn():
    config = TransformerConfig(**{**BASE, "d_mlp": 0}, norm="none")
    prompt = random_prompt(0)
    assert random_model(config)(prompt.tokens(), 10).isfinite().all()


def test_causal_supports_do_not_see_later_ones():
    config = TransformerConfig(**BASE, mask="causal", attention="linear")
    model, prompt = random_model(config), random_prompt(0, k=150)
    later = prompt.y.clone()
    later[:, 100:] += 1
    before = all_states(model, prompt)
    after = all_states(model, Prompt(prompt.phi, later, prompt.phi_query))
    for site, value in before.items():
        torch.testing.assert_close(value[:, :100], after[site][:, :100], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(value[:, 100:], after[site][:, 100:])


def test_linear_attention_never_forms_the_square_matrix():
    """65,536 tokens squared would be 34 GB in one head; the pass must fit in ordinary memory."""
    config = TransformerConfig(**BASE, mask="prefix", attention="linear", norm="none")
    prompt = random_prompt(0, k=65536)
    with torch.inference_mode():
        out = random_model(config)(prompt.tokens(), 65537)
    assert out.shape == (2, 3, 2)


def test_edits_are_values():
    model, prompt = random_model(TransformerConfig(**BASE)), random_prompt(1)
    tokens, context = prompt.tokens(), prompt.supports + 1
    with torch.no_grad():
        plain = model(tokens, context)
        gone = model(tokens, context, [ablate_head(1, 0)])
        record = Record.of(["blocks.1.attn.z", "blocks.0.resid_post"])
        again = model(tokens, context, [record])
        z = record.values["blocks.1.attn.z"]
        by_hand = z.clone()
        by_hand[..., 0, :] = 0
        patched = model(tokens, context, [patch("blocks.1.attn.z", by_hand)])
        muted = model(
            tokens, context, [ablate("blocks.2.mlp_out"), ablate("blocks.0.attn_out", [1])]
        )
        doubled = model(tokens, context, [Edit("embed", lambda x: 2 * x)])
    assert torch.equal(plain, again)
    assert torch.equal(gone, patched)
    for changed in (gone, muted, doubled):
        assert not torch.allclose(plain, changed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, t: m(t, 10, [ablate("blocks.9.mlp_out")]), "no site 'blocks.9.mlp_out'"),
        (lambda m, t: m(t[..., 1:], 10), "tokens of 8 entries"),
        (lambda m, t: m(t, 0), "context must be between"),
        (lambda m, t: TransformerConfig(**{**BASE, "d_mlp": -1}), "d_mlp must be"),
    ],
)
def test_impossible_requests_are_refused(call, message):
    with pytest.raises(Refusal, match=message):
        call(random_model(TransformerConfig(**BASE)), random_prompt(0).tokens())


def test_too_many_tokens_for_learned_positions_are_refused():
    config = TransformerConfig(**BASE, positional="learned")
    with pytest.raises(Refusal, match="positions for 64 tokens"):
        random_model(config)(random_prompt(0, k=80).tokens(), 81)
