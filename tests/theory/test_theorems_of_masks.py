"""Masks: no bit of a state depends on a token that is kept from it, and a leak anywhere is found."""

import pytest
import torch

from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention, compile
from ridgeformer.experiments.theorems import structure
from ridgeformer.solvers import ConjugateGradient
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.transformer import Transformer, TransformerConfig, attention
from ridgeformer.types import Refusal

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]


def model(attention, mask, registers=0):
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(
            d_in=7, d_out=1, d_model=12, n_layers=3, n_heads=2, d_head=6, d_mlp=24, n_registers=registers,
            attention=attention, mask=mask, dtype="float64", attn_scale=0.2,
        )
    )  # fmt: skip


def tokens(n):
    return torch.randn(2, n, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("registers", [0, 2])
@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("mask", ["prefix", "causal", "context"])
class TestMasks:
    @pytest.mark.parametrize("context", [5, 71, 300])
    def test_no_bit_of_the_context_depends_on_a_query(self, attention, mask, registers, context):
        given = tokens(context + 3)
        other = given.clone()
        other[:, context:] = 7 * other[:, context:] - 2
        inside, outside = theory.state_leak(
            model(attention, mask, registers), given, other, context
        )
        assert inside.shape[2] == registers + context
        assert not inside.any()
        assert outside.float().mean() > 0.9

    def test_the_jacobian_from_query_to_context_is_zero(self, attention, mask, registers):
        transformer = model(attention, mask, registers)
        given = tokens(7).requires_grad_()
        first = 5 + registers
        (slope,) = torch.autograd.grad(
            transformer.residual_stream(given, 5)[:, :first].square().sum(), given
        )
        assert not slope[:, 5:].any()
        (own,) = torch.autograd.grad(transformer.residual_stream(given, 5)[:, first].sum(), given)
        assert own[:, 5].all()
        assert not own[:, 6].any(), "nor does a query read another"


@pytest.mark.parametrize("registers", [0, 2])
@pytest.mark.parametrize("attention", ["linear", "softmax"])
class TestCausalMask:
    @pytest.mark.parametrize("context", [5, 71, 300])
    def test_no_bit_depends_on_a_later_token(self, attention, registers, context):
        given, transformer = tokens(context + 3), model(attention, "causal", registers)
        for at in (0, context // 2, context - 1):
            other = given.clone()
            other[:, at] += 1
            inside, outside = theory.state_leak(transformer, given, other, context)
            assert inside.shape[2] == registers + at
            assert not inside.any()
            assert outside[1:, :, 0].all()
            assert outside[2:, :, -1].any(), "queries read all of the context"

    def test_the_jacobian_from_later_to_earlier_tokens_is_zero(self, attention, registers):
        given, transformer = tokens(8).requires_grad_(), model(attention, "causal", registers)
        for i in range(6):
            stream = transformer.residual_stream(given, 6)[:, registers + i]
            (slope,) = torch.autograd.grad(stream.square().sum(), given)
            assert not slope[:, i + 1 :].any()
            assert slope[:, : i + 1].any(-1).all()


def test_which_rows_a_token_reaches():
    def rows(mask, changed, context=3):
        config = TransformerConfig.from_dict(model("linear", mask, 1).config.to_dict())
        return theory.may_depend(config, torch.tensor(changed).bool(), context).int().tolist()

    assert rows("prefix", [0, 0, 0, 1, 0]) == [0, 0, 0, 0, 1, 0]
    assert rows("prefix", [0, 1, 0, 0, 0]) == [1, 1, 1, 1, 1, 1]
    assert rows("causal", [0, 1, 0, 0, 0]) == [0, 0, 1, 1, 1, 1]
    assert rows("causal", [0, 0, 0, 0, 1]) == [0, 0, 0, 0, 0, 1]
    assert rows("causal", [1, 0, 1, 0, 0]) == [0, 1, 1, 1, 1, 1]


def test_sequences_of_other_lengths_are_refused():
    with pytest.raises(Refusal, match="the same shape"):
        theory.state_leak(model("linear", "prefix"), tokens(6), tokens(7), 5)


@pytest.mark.parametrize("mask", ["prefix", "causal"])
@pytest.mark.parametrize("registers", [0, 2])
def test_a_leak_into_any_row_is_found(mask, registers):
    """What is planted is found in its own row, and in no other of the context."""
    transformer, given, context = model("softmax", mask, registers), tokens(8), 5
    other = given.clone()
    other[:, context:] += 1
    rows = registers + context
    for row in range(rows):
        leak = structure.planted("blocks.2.resid_post", row, rows)
        inside, _ = theory.state_leak(transformer, given, other, context, (leak,))
        found = inside[-2:].any(-1).any(1)
        assert found.tolist() == 2 * [[at == row for at in range(rows)]]
        assert not inside[:-2].any()
    # and a check that skips the aggregator, or the first row, is itself noticed
    right = structure.state_leak
    for kept in (slice(0, -1), slice(1, None)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                structure,
                "state_leak",
                lambda *a, kept=kept: (right(*a)[0][:, :, kept], right(*a)[1]),
            )
            assert structure.unnoticed(random_model(mask), 6, 0).sum() == 1
    assert structure.unnoticed(random_model(mask), 6, 0).sum() == 0


def random_model(mask):
    return next(m for m, _ in structure.tried_models(0) if m.config.mask == mask)


def test_a_causal_mask_that_sees_the_next_token_is_noticed(monkeypatch):
    """One diagonal too many."""

    def seeing(self, q, k, v, rows=slice(None)):
        logits = self.config.attn_scale * q @ k.mT
        if self.config.mask == "causal":
            n = k.shape[2]
            logits += q.new_full((n, n), -torch.inf).triu(2)[rows]
        return logits.softmax(-1) @ v

    monkeypatch.setattr(attention.Attention, "among_context", seeing)
    leaks = {
        transformer.config.mask: structure.random_leaks(transformer, supports, 0)
        for transformer, supports in structure.tried_models(0)
        if transformer.config.attention == "softmax" and supports == 70
    }
    assert max(inside.max() for inside, _ in leaks["causal"]) > 0
    assert max(inside.max() for inside, _ in leaks["prefix"]) == 0


def test_an_x_among_the_pairs_is_read_by_no_other_token():
    """At every prefix; a decoder with random weights reads it, as its mask lets it."""
    prompt = PrescribedSpectrum(features=3, supports=6, condition=5).draw(2, seed=0)
    target = LinearAttention(20.0, Exact(), causal=True, every_prefix=True)
    compiled = compile(ConjugateGradient(), features=3, steps=2, ridge=1.0, to=target)
    given, context = compiled.sequence(prompt)
    inside, outside = structure.unread_query(compiled.transformer, given, context)
    assert not inside.any()
    assert outside.any()
    decoder = model("softmax", "causal")
    assert structure.unread_query(decoder, given, context)[0].any()
