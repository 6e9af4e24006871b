"""Tasks draw what they say, and the same each time."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.kernels import Gaussian
from ridgeformer.solvers import condition_number, kernel_eigenvalues
from ridgeformer.tasks import TASKS, KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_seeded_and_finite(name):
    task = TASKS[name]()
    first, again, other = task.draw(3, seed=1), task.draw(3, seed=1), task.draw(3, seed=2)
    assert torch.equal(first.phi, again.phi)
    assert torch.equal(first.y, again.y)
    assert not torch.equal(first.y, other.y)
    assert first.phi.shape == (3, task.supports, task.features)
    assert first.phi_query.shape == (3, task.queries, task.features)
    assert first.y.shape == (3, task.supports, task.outputs)


@given(
    features=st.integers(1, 12),
    supports=st.integers(1, 30),
    condition=st.floats(1.5, 1e6),
    shape=st.sampled_from(["geometric", "uniform", "clustered"]),
)
def test_the_prescribed_condition_number_is_exact(features, supports, condition, shape):
    task = PrescribedSpectrum(
        features=features, supports=supports, condition=condition, ridge=0.3, shape=shape
    )
    prompt = task.draw(2, seed=0)
    top = kernel_eigenvalues(prompt)[:, -1]
    np.testing.assert_allclose(top.numpy(), task.max_eigenvalue, rtol=1e-9)
    if supports > 1:  # a single support has a single eigenvalue
        found = condition_number(prompt, ridge=0.3)
        np.testing.assert_allclose(found.numpy(), condition, rtol=1e-6)


def test_targets_of_a_kernel_task_have_its_covariance():
    task = KernelDraw(kernel=Gaussian(1.0), supports=3, features=1, noise=0.5, outputs=20000)
    prompt = task.draw(1, seed=0)
    found = prompt.y[0] @ prompt.y[0].T / 20000
    expected = Gaussian(1.0)(prompt.phi, prompt.phi)[0] + 0.25 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)


def test_tokens_have_their_layout():
    prompt = Prompt(torch.ones(1, 2, 3), 5 * torch.ones(1, 2, 1), 2 * torch.ones(1, 1, 3))
    expected = [
        [1, 1, 1, 5, 1, 0, 0],
        [1, 1, 1, 5, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [2, 2, 2, 0, 0, 0, 1],
    ]
    assert prompt.tokens()[0].tolist() == expected


def test_prompts_survive_the_disk(tmp_path):
    prompt = PrescribedSpectrum().draw(2, seed=0)
    for dtype in (torch.float64, torch.float32):
        prompt.to(dtype).save(tmp_path / "p.npz")
        again = Prompt.load(tmp_path / "p.npz")
        assert again.phi.dtype == dtype
        assert torch.equal(again.y, prompt.to(dtype).y)
    assert [p.name for p in tmp_path.iterdir()] == ["p.npz"]


@pytest.mark.parametrize("condition", [0.5, -1.0])
def test_impossible_spectra_are_refused(condition):
    with pytest.raises(Refusal, match="condition ≥ 1"):
        PrescribedSpectrum(condition=condition)
