"""A transformer in another basis of its residual stream is the same function, whatever the basis."""

import pytest
import torch

from ridgeformer.transformer import Record, Transformer, TransformerConfig
from ridgeformer.transformer.edits import SITES
from ridgeformer.transformer.rotation import random_basis, rotated
from ridgeformer.types import Refusal


def drawn(**options):
    sizes = {
        "d_in": 6,
        "d_out": 2,
        "d_model": 10,
        "n_layers": 3,
        "n_heads": 2,
        "d_head": 3,
        "d_mlp": 7,
    }
    config = TransformerConfig(**{**sizes, "norm": "none", "dtype": "float64", **options})
    model = Transformer(config).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():  # biases, too, which are drawn as 0
        weight.copy_(0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    tokens = torch.randn(4, 9, 6, generator=generator, dtype=torch.float64)
    return model, tokens


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "softmax", "mlp": "gelu", "mask": "causal"},
        {"attention": "linear", "mlp": "reglu", "attn_scale": 0.1, "n_registers": 2},
        {"attention": "softmax", "mlp": "relu", "mask": "context"},
        {"attention": "linear", "mlp": "gelu_new", "attn_scale": 0.1, "mask": "causal", "d_mlp": 0},
        {"positional": "learned", "max_tokens": 12, "n_registers": 1},
        {"attention": "softmax", "mlp": "reglu", "loop": (1, 2)},
    ],
    ids=lambda options: " ".join(str(value) for value in options.values()),
)
def test_predictions_stay_and_streams_are_turned(options):
    model, tokens = drawn(**options)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    basis = random_basis(10, seed=1)
    turned = rotated(model, basis)
    loops = 3 if "loop" in options else 1
    applied = len(model.config.applied(loops))
    streams = {"embed"} | {
        f"blocks.{n}.{name}" for n in range(applied) for name in SITES if name != "attn.z"
    }
    inner = {f"blocks.{n}.attn.z" for n in range(applied)}
    mine, theirs = Record.of(streams | inner), Record.of(streams | inner)
    expected = model(tokens, 5, [mine], loops=loops)
    assert torch.allclose(turned(tokens, 5, [theirs], loops=loops), expected, atol=1e-12)
    for site in streams:
        assert torch.allclose(theirs.values[site], mine.values[site] @ basis, atol=1e-12), site
        assert not torch.allclose(theirs.values[site], mine.values[site], atol=1e-3), site
    for site in inner:  # what heads hold inside is no part of the stream
        assert torch.allclose(theirs.values[site], mine.values[site], atol=1e-12), site
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_a_random_basis_is_orthogonal_and_follows_its_seed():
    basis = random_basis(12, seed=3)
    assert torch.allclose(basis.mT @ basis, torch.eye(12, dtype=torch.float64), atol=1e-12)
    assert torch.equal(basis, random_basis(12, seed=3))
    assert not torch.allclose(basis, random_basis(12, seed=4), atol=0.1)
    # Uniform, so that no sign is more likely than another.
    corner = torch.stack([random_basis(3, seed)[0, 0] for seed in range(400)])
    assert abs(float(corner.mean())) < 0.1
    assert float(corner.square().mean()) == pytest.approx(1 / 3, abs=0.06)


@pytest.mark.parametrize(
    "options", [{"norm": "layernorm"}, {"norm": "rmsnorm"}, {"positional": "sinusoidal"}]
)
def test_what_is_not_the_same_in_another_basis_is_refused(options):
    model, _ = drawn(**options)
    with pytest.raises(Refusal, match="norm none and without sinusoidal positions"):
        rotated(model, random_basis(10, seed=0))


def test_a_matrix_that_is_no_basis_is_refused():
    model, _ = drawn()
    for basis in (2 * torch.eye(10).double(), torch.eye(9).double(), torch.ones(10, 10).double()):
        with pytest.raises(Refusal, match=r"orthogonal matrix \[10, 10\]"):
            rotated(model, basis)
