"""Linear readouts find what is in a stream, on other prompts than those that fit them, and nothing else."""

from itertools import chain

import pytest
import torch

from ridgeformer.analysis.readouts import Readouts, Split

LAYERS, BATCH, TOKENS, WIDTH = 3, 60, 5, 6


@pytest.fixture
def streams():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(LAYERS, BATCH, TOKENS, WIDTH, generator=generator, dtype=torch.float64)


def test_the_parts_of_a_split_share_no_prompt_and_leave_none_out():
    for prompts in (8, 61, 128):
        split = Split.of(prompts)
        rows = [list(range(prompts))[part] for part in (split.fit, split.choose, split.score)]
        assert sorted(chain(*rows)) == list(range(prompts))
        assert all(rows)


def test_a_linear_form_of_one_layer_is_found_in_that_layer_alone(streams):
    split = Split.of(BATCH)
    form = torch.arange(1.0, WIDTH + 1, dtype=torch.float64)
    targets = (streams[1] @ form)[None, ..., None] + 2.0
    errors = Readouts(streams, split.fit).errors(targets, split.score).mean(-1)
    size = float(targets[0].var())
    assert errors.shape == (LAYERS, 1)
    assert float(errors[1, 0]) < 1e-12 * size
    assert all(float(errors[layer, 0]) > 0.8 * size for layer in (0, 2))


def test_the_basis_of_the_stream_does_not_matter(streams):
    split = Split.of(BATCH)
    turn = torch.linalg.qr(streams[0, 0].new_ones(WIDTH, WIDTH).tril()).Q
    targets = streams[:2, :, :, :2].square()
    errors = [
        Readouts(x, split.fit).errors(targets, split.score) for x in (streams, 100 * streams @ turn)
    ]
    torch.testing.assert_close(errors[0], errors[1], rtol=1e-6, atol=0)


def test_columns_without_anything_in_them_are_harmless(streams):
    split = Split.of(BATCH)
    padded = torch.cat([streams, torch.full_like(streams, 3.0)], dim=-1)
    targets = streams[:1, :, :, :1]
    errors = [Readouts(x, split.fit).errors(targets, split.score) for x in (streams, padded)]
    torch.testing.assert_close(errors[0], errors[1], rtol=1e-6, atol=1e-20)


def test_a_readout_that_saw_the_scoring_prompts_is_noticed():
    """With as many columns as rows everything can be fitted; only other prompts tell."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(1, 40, 2, 30, generator=generator, dtype=torch.float64)
    targets = torch.randn(1, 40, 2, 1, generator=generator, dtype=torch.float64)
    split = Split.of(40)
    readouts = Readouts(noise, split.fit)
    seen, unseen = (
        float(readouts.errors(targets, part).mean()) for part in (split.fit, split.score)
    )
    assert seen < 0.5
    assert unseen > 1.0
