"""Prompts that a search for the largest error over what is promised has found, and what the promise says there."""

import numpy as np
import pytest
import torch
from promise import excess_of, on_features, own_round_off, solution

from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Gaussian, Polynomial
from ridgeformer.models import trajectory
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import Prompt

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]


def predicted(model, prompt):
    return trajectory(model, prompt).predictions.numpy()


def as_prompt(phi, y, query, dtype=torch.float64):
    return Prompt(*(torch.as_tensor(np.array(x), dtype=dtype) for x in (phi, y, query)))


@pytest.mark.parametrize("name", ["gd", "heavy-ball", "cg"])
def test_monomials_that_cancel(name):
    """(⟨x, φ⟩ + 1)² with ⟨x, φ⟩ = −1 up to 10⁻¹²: the solver rounds nothing, a sum of monomials does."""
    phi = np.array([[[-0.4, -0.14, 0.1]]])
    off = np.array([0.0, 1e-12, 1e-9, 1e-6])[:, None]
    query = phi[0] * (-1 + off) / np.square(phi).sum()
    query = query + np.cross(phi[0, 0], [1.0, 2.0, 3.0])
    to = LinearAttention(2.0, Exact())
    model = compile(
        make_solver(name), features=3, steps=3, ridge=0.005, kernel=Polynomial(2), to=to
    )
    prompt = as_prompt(np.repeat(phi, 4, 0), np.full((4, 1, 1), 0.7), query[:, None])
    found, exact = predicted(model, prompt), solution(model, prompt)
    assert excess_of(model, prompt, found).max() < 1
    apart = np.abs(found - exact)[1:, :2].max()
    direct = own_round_off(lambda p: solution(model, p), prompt, exact)[1:, :2].max()
    assert apart > 1e3 * direct, "which is why the solver's round-off is that of the monomials"
    assert apart < own_round_off(lambda p: on_features(model, p), prompt, exact).max() * 100
    assert "on the monomials" in model.certificate.promise()
    assert not compile(
        make_solver(name), features=3, steps=3, ridge=0.005, to=to
    ).certificate.on_monomials


@pytest.mark.parametrize("name", ["cg", "cg-predicted"])
def test_residuals_that_cancel_without_round_off(name):
    """With one target that is not 0 the first entry of CG's second residual is 0, and in float32 it is
    rounded to that or to a last place: what a step later is off by is a matter of luck, in the solver, too."""
    rng = np.random.default_rng(0)
    phi = 10.0 ** rng.uniform(-4, -0.5, (256, 12, 1)) * rng.choice([-1, 1], (256, 12, 1))
    phi[:, 0] = 1.66
    y = np.zeros_like(phi)
    y[:, 0] = -0.688
    model = compile(
        make_solver(name),
        features=1,
        steps=3,
        ridge=5.2e-5,
        dtype="float32",
        to=LinearAttention(56.0),
    )
    prompt = as_prompt(
        phi, y, rng.standard_normal((256, 3, 1)) * [[[3.0], [0.2], [12.0]]], torch.float32
    )
    assert excess_of(model, prompt, predicted(model, prompt)).max() < 1


def test_kernel_values_that_underflow_count_as_nothing():
    to = SoftmaxAttention(4.8, 4)
    model = compile(make_solver("cg"), features=1, steps=3, ridge=8.3, kernel=Gaussian(0.06), to=to)
    prompt = as_prompt([[[-3.6], [-0.8]]], [[[4.5], [0.0]]], [[[-1.2]]])
    assert np.abs(predicted(model, prompt)).max() < 2.0**-1022
