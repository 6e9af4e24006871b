"""The generic transformer: no leak, linear cost, edits, and the same numbers in NumPy."""

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
    "mlp": ["relu", "gelu", "reglu"],
    "norm": ["none", "layernorm", "rmsnorm"],
    "mask": ["prefix", "causal"],
    "positional": ["none", "learned"],
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
    k = prompt.supports
    for site, value in before.items():
        assert torch.equal(value[:, : k + 1], after[site][:, : k + 1]), site
    assert not torch.equal(before["embed"][:, k + 1 :], after["embed"][:, k + 1 :])


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
    if config.positional == "learned":  # positions differ by design
        return
    model, prompt = random_model(config, seed), random_prompt(seed)
    with torch.no_grad():
        together = model(prompt.tokens(), 10)
        alone = [
            model(Prompt(prompt.phi, prompt.y, prompt.phi_query[:, i : i + 1]).tokens(), 10)
            for i in range(3)
        ]
    torch.testing.assert_close(together, torch.cat(alone, dim=1), rtol=1e-10, atol=1e-12)


@given(configs, st.integers(0, 2**20))
def test_numpy_gives_the_same_predictions(tmp_path_factory, config, seed):
    directory = tmp_path_factory.mktemp("model") / "m"
    model, prompt = random_model(config, seed), random_prompt(seed, k=70)
    if config.positional == "learned":
        prompt = random_prompt(seed, k=40)
    save(model, directory)
    with torch.no_grad():
        found = model(prompt.tokens(), prompt.supports + 1).numpy()
    expected = run(directory, *(x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query)))
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
    model = random_model(replace(config, n_layers=layers))
    tokens = random_prompt(0).tokens()
    some = model.residual_stream(tokens, context, rows=slice(1, None, 2))
    torch.testing.assert_close(some, model.residual_stream(tokens, context)[:, 1::2])


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
