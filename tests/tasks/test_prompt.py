"""Prompts: what they are made of, how they are cut, moved and shown, and what they refuse."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


def arrays(batch=5, k=4, p=3, r=2, q=6, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(s).astype(dtype) for s in ((batch, k, p), (batch, k, r), (batch, q, p))
    ]


def parts(prompt):
    return prompt.phi, prompt.y, prompt.phi_query


def test_numpy_arrays_and_lists_are_taken():
    phi, y, query = arrays()
    prompt = Prompt(phi, y, query)
    for tensor, array in zip(parts(prompt), (phi, y, query), strict=True):
        assert tensor.dtype == torch.float64
        assert np.array_equal(tensor.numpy(), array)
    same = Prompt(phi.tolist(), y, torch.from_numpy(query))
    assert all(torch.equal(a, b) for a, b in zip(parts(same), parts(prompt), strict=True))


def test_arrays_are_single_precision_only_if_all_are():
    single = arrays(dtype=np.float32)
    assert Prompt(*single).phi.dtype == torch.float32
    mixed = Prompt(single[0], single[1].astype(np.float64), single[2])
    whole = Prompt(*(np.ones_like(a, dtype=int) for a in single))
    for prompt in (mixed, whole):
        assert {t.dtype for t in parts(prompt)} == {torch.float64}


def test_a_prompt_is_a_copy_of_the_arrays():
    phi, y, query = arrays()
    prompt = Prompt(phi, y, query)
    phi[:] = np.nan
    assert torch.isfinite(prompt.phi).all()


@pytest.mark.parametrize("make", [np.asarray, torch.tensor])
def test_a_single_problem_needs_no_batch_dimension(make):
    phi, y, query = (make(a[0]) for a in arrays(r=1))
    expected = Prompt(phi[None], y[None], query[None])
    for targets in (y, y[:, 0]):
        prompt = Prompt(phi, targets, query)
        assert all(torch.equal(a, b) for a, b in zip(parts(prompt), parts(expected), strict=True))
    one = Prompt(phi, y[:, 0], query[0])
    assert torch.equal(one.phi_query, expected.phi_query[:, :1])
    several = Prompt(phi, np.ones((4, 2)), query)
    assert several.outputs == 2


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((4, 3), (1, 4, 1), (1, 2, 3)), r"needs phi \[B,k,p\]"),
        (((1, 4, 3), (4,), (3,)), r"needs phi \[B,k,p\]"),
        (((1, 4, 3), (1, 4), (1, 2, 3)), r"needs phi \[B,k,p\]"),
        (((4,), (4,), (4,)), r"needs phi \[B,k,p\]"),
        (((4, 3), (5,), (3,)), "one target"),
        (((4, 3), (4,), (2,)), "feature sizes"),
        (((0, 3), (0,), (3,)), "no support"),
        (((4, 0), (4,), (0,)), "may be empty"),
    ],
)
@pytest.mark.parametrize("make", [np.ones, torch.ones])
def test_shapes_that_do_not_fit_are_refused(shapes, words, make):
    with pytest.raises(Refusal, match=words):
        Prompt(*(make(shape) for shape in shapes))


def test_entries_that_are_no_numbers_are_refused():
    phi, y, query = arrays()
    with pytest.raises(Refusal, match="y contains NaN"):
        Prompt(phi, y * np.nan, query)
    for odd in (y.astype(str), y.astype(complex), y > 0):
        with pytest.raises(Refusal, match="real numbers; got y of type"):
            Prompt(phi, odd, query)


def test_prompts_are_cut_along_the_batch():
    prompt = Prompt(*arrays())
    assert len(prompt) == 5
    for rows in (slice(2), slice(1, 4), slice(None, None, 2), [0, 3], torch.tensor([4, 1]), np.array([True] * 3 + [False] * 2)):  # fmt: skip
        part = prompt[rows]
        for some, whole in zip(parts(part), parts(prompt), strict=True):
            assert torch.equal(some, whole[rows])
    for index in (0, 3, -1):
        part = prompt[index]
        assert len(part) == 1
        assert torch.equal(part.phi[0], prompt.phi[index])
    assert [len(one) for one in prompt] == [1] * 5
    with pytest.raises(IndexError):
        prompt[5]
    with pytest.raises(Refusal, match="may be empty"):
        prompt[5:]


def test_prompts_move_between_precisions_and_devices():
    prompt = Prompt(*arrays())
    assert {t.dtype for t in parts(prompt.to(torch.float32))} == {torch.float32}
    for device in ("cpu", torch.device("cpu")):
        assert torch.equal(prompt.to(device).phi, prompt.phi)


def test_models_take_what_numpy_gives():
    model = rf.compile(
        rf.GradientDescent(), features=3, steps=2, ridge=1.0, to=rf.LinearAttention(99.0)
    )
    phi, y, query = (a[0] for a in arrays(r=1))
    prompt = Prompt(phi, y[:, 0], query)
    expected = rf.solve(rf.GradientDescent(), prompt, steps=2, ridge=1.0, max_eigenvalue=99.0)
    torch.testing.assert_close(model(prompt), expected.final, rtol=1e-9, atol=1e-12)
    assert model(prompt).shape == (1, 6, 1)
