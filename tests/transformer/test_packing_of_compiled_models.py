"""Compiled models without the zeros of their weights, and the threads that share a batch."""

from threading import Thread

import pytest
import torch
from sparse_models import BASE, FULL, assert_same, is_packed, random_tokens, sparse_model

from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import ConjugateGradient, make_solver
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.transformer import Record, TransformerConfig, packing, threads

pytestmark = pytest.mark.usefixtures("unchecked", "pack_always")


class Stopped(Exception):
    """Raised where a pass must not come."""


@pytest.mark.parametrize("inference", [True, False])
def test_threads_share_the_batch(inference):
    config = TransformerConfig(**BASE, dtype="float64")
    model, tokens = sparse_model(config), random_tokens(config, batch=7)
    with torch.inference_mode(inference), torch.no_grad():
        alone = model(tokens, 7)
        torch.set_num_threads(2)
        try:
            together = model(tokens, 7)
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(1)
    assert together.is_inference() == inference
    assert not together.requires_grad
    assert_same(together, alone, config)


def test_the_number_of_threads_is_what_it_was_also_after_an_error():
    def nested(part):
        assert torch.get_num_threads() == 1
        with threads.one_thread_each:
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
        if part.sum() > 1:
            raise Stopped
        return part

    parts = list(torch.arange(3).split(1))
    torch.set_num_threads(2)
    try:
        assert threads.in_threads(nested, parts[:2], 2) == parts[:2]
        assert torch.get_num_threads() == 2
        with pytest.raises(Stopped):
            threads.in_threads(nested, parts, 2)
        assert torch.get_num_threads() == 2
        callers = [Thread(target=threads.in_threads, args=(nested, parts[:2], 2)) for _ in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def cases():
    linear, steps = LinearAttention(20.0), 4
    make = lambda name, to, **options: compile(  # noqa: E731
        make_solver(name), features=3, steps=steps, ridge=1.0, to=to, **options
    )
    yield "cg", make("cg", linear)
    yield "cg, gated", make("cg", LinearAttention(20.0, Exact()))
    yield "cg, causal", make("cg", LinearAttention(20.0, causal=True))
    yield "chebyshev", make("chebyshev", linear)
    yield "cg, float32", make("cg", linear, dtype="float32")
    yield "cg, softmax", make("cg", SoftmaxAttention(3.0, 24), kernel=Exponential(2.0))


@pytest.mark.portable
@pytest.mark.parametrize(("name", "model"), list(cases()), ids=lambda case: str(case)[:12])
def test_compiled_models_layer_by_layer(name, model: CompiledModel):
    """From the same stream every layer gives the same, whatever the solver then makes of round-off."""
    transformer, dtype = model.transformer, model.transformer.config.dtype
    task = PrescribedSpectrum(features=3, supports=24, condition=5, queries=2)
    prompt = task.draw(8, seed=0)
    tokens, context = prompt.tokens(), 25
    sites = ["embed", *(f"blocks.{layer}.resid_post" for layer in range(len(transformer.blocks)))]
    record = Record.of(sites)
    with torch.inference_mode():
        expected = transformer(tokens, context, [record])
        for layer, block in enumerate(transformer.blocks):
            before, after = (record.values[sites[i]] for i in (layer, layer + 1))
            x = before.permute(2, 0, 1).contiguous()
            packing.pack(block).apply(x, context)
            scale = float(after.abs().max())
            atol = {"float64": 1e-13, "float32": 1e-5}[dtype] * scale
            torch.testing.assert_close(x.permute(1, 2, 0), after, rtol=0, atol=atol)
        found = transformer(tokens, context)
    tolerance = {"float64": 1e-12, "float32": 1e-4}[dtype]
    torch.testing.assert_close(
        found, expected, rtol=0, atol=tolerance * float(expected.abs().max())
    )


@pytest.mark.portable
def test_predictions_of_many_well_conditioned_problems(monkeypatch):
    """The same numbers to 1e-13, in the way that users call the model."""
    monkeypatch.undo()
    task = PrescribedSpectrum(features=8, supports=32, condition=5)
    model = compile(
        ConjugateGradient(), features=8, steps=6, ridge=1.0, to=LinearAttention(task.max_eigenvalue)
    )
    prompt = task.draw(64, seed=0)
    with torch.inference_mode():
        assert is_packed(model.transformer, prompt.tokens())
        expected = model.transformer(prompt.tokens(), 33, [FULL])
        scale = float(expected.abs().max())
        torch.testing.assert_close(model.predict(prompt), expected, rtol=0, atol=1e-13 * scale)
