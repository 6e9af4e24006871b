"""Interventions on what a model does not have are refused, and on what does nothing come with a warning."""

import warnings

import pytest
import torch

import ridgeformer as rf
from conftest import without_checks
from ridgeformer.transformer import Edit, patch
from ridgeformer.types import Refusal

TASK = rf.PrescribedSpectrum(features=3, supports=6, condition=10.0)


@pytest.fixture(scope="module")
def model():
    to = rf.LinearAttention(TASK.max_eigenvalue)
    return rf.compile(rf.ConjugateGradient(), features=3, steps=2, ridge=1.0, to=to)


def run(model, *edits):
    return rf.trajectory(model, TASK.draw(2, seed=0), edits=list(edits)).final


@pytest.mark.parametrize("head", [99, 5, -1])
def test_a_head_that_is_not_there(model, head):
    with pytest.raises(
        Refusal, match=f"Layer 2 has no head {head}: it has 5 heads, counted from 0"
    ):
        run(model, rf.ablate_head(2, head))


def test_a_layer_that_is_not_there(model):
    with pytest.raises(Refusal, match=r"no site 'blocks\.99\.attn\.z'"):
        run(model, rf.ablate_head(99, 0))


def test_a_head_that_is_not_used(model):
    """A compiled model has as many heads in each layer as its widest one, and lists those that it uses."""
    used = {(site.layer, site.head) for site in model.heads()}
    intact, config = run(model), model.transformer.config
    for layer in range(config.n_layers):
        for head in range(config.n_heads):
            with warnings.catch_warnings(record=True) as said, without_checks():
                warnings.simplefilter("always")
                found = run(model, rf.ablate_head(layer, head))
            assert bool(said) == ((layer, head) not in used)
            if said:
                assert f"Head {head} of layer {layer} has weights of zero" in str(said[0].message)
                torch.testing.assert_close(found, intact, rtol=1e-12, atol=1e-12)


def test_channels_and_values_that_do_not_fit(model):
    width = model.transformer.config.d_model
    for channel in (width, -1):
        with pytest.raises(Refusal, match=rf"blocks\.2\.mlp_out has no channel {channel}"):
            run(model, rf.ablate("blocks.2.mlp_out", [0, channel]))
    with pytest.raises(Refusal, match="cannot take its place"):
        run(model, patch("embed", torch.zeros(width + 1)))


def test_what_is_no_list_of_edits(model, unchecked):
    for edits in (rf.ablate_head(0, 0), [lambda x: x], "embed"):
        with pytest.raises(Refusal, match="Edits are given as a list"):
            rf.trajectory(model, TASK.draw(2, seed=0), edits=edits)
    assert isinstance(rf.ablate("embed"), Edit)
