"""Gradient descent and what is learned: against loops, closed forms and each other."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from baseline_cases import assert_mean, error, fitted, held_out

from ridgeformer.baselines import (
    Adapter,
    FixedSteps,
    LearnedPreconditioners,
    LearnedSteps,
)
from ridgeformer.baselines.adapter import Network
from ridgeformer.solvers import GradientDescent, solve
from ridgeformer.statistics import estimate
from ridgeformer.tasks import (
    LEARNABLE,
    KernelDraw,
    LinearRegression,
    Prompt,
)


def test_gradient_descent_is_the_loop_and_the_solver():
    prompt = KernelDraw(features=4, supports=10, outputs=2).draw(3, seed=0)
    found = FixedSteps(steps=6, eta=0.2).predict(prompt)
    for b in range(3):
        x, y = prompt.phi[b].numpy(), prompt.y[b].numpy()
        w = np.zeros((4, 2))
        for _ in range(6):
            w -= 0.2 * x.T @ (x @ w - y) / 10
        np.testing.assert_allclose(found[b], prompt.phi_query[b].numpy() @ w, atol=1e-12)
    # α ← α + (η/k)(y − Kα), with a ridge that is too small to see.
    interval = (10 / 0.2, 10 / 0.2)
    peer = solve(GradientDescent(), prompt, steps=6, ridge=1e-12, interval=interval)
    torch.testing.assert_close(found, peer.final, rtol=1e-9, atol=1e-10)


def test_preconditioned_descent_is_the_loop():
    """With matrices that are not symmetric, so that P and Pᵀ differ."""
    prompt = KernelDraw(features=3, supports=10, outputs=2).draw(2, seed=0)
    g = torch.Generator().manual_seed(0)
    matrices = 0.2 * torch.randn(4, 3, 3, generator=g, dtype=torch.float64)
    found = LearnedPreconditioners(4, preconditioners=matrices).predict(prompt)
    for b in range(2):
        x, y = prompt.phi[b].numpy(), prompt.y[b].numpy()
        w = np.zeros((3, 2))
        for P in matrices.numpy():
            w -= P @ (x.T @ (x @ w - y) / 10)
        np.testing.assert_allclose(found[b], prompt.phi_query[b].numpy() @ w, atol=1e-12)


def test_learned_steps_are_better_than_the_best_common_step():
    task = LinearRegression(features=4, supports=16, queries=8)
    sample = held_out(task, 2000)
    common = FixedSteps(4).fit(task, seed=0)
    equal = error(common.predict(sample.prompt), sample)
    least = min(
        float(error(FixedSteps(4, eta).predict(sample.prompt), sample).mean())
        for eta in common.eta * np.logspace(-0.5, 0.5, 21)
    )
    learned = LearnedSteps(4, updates=150).fit(task, seed=0)
    better = estimate(equal - error(learned.predict(sample.prompt), sample), seed=0)
    assert better.low > 0
    # Better than the best common step in hindsight, too.
    assert float(error(learned.predict(sample.prompt), sample).mean()) < 0.95 * least
    sizes = learned.preconditioners.diagonal(dim1=-2, dim2=-1)
    assert float(sizes.max() / sizes.min()) > 2  # they did not stay equal


def test_one_preconditioned_step_finds_the_optimum_of_isotropic_features():
    """P* = c·I with 1/c = 1 + (d + 1 + σ²d)/k, for w ~ N(0, I/d), x ~ N(0, I), noise σ.

    With S = ΦᵀΦ/k, E S = I and E S² = (1 + (d + 1)/k)·I, so that the risk of P is
    σ² + 1 − 2 tr P/d + |P|²_F/(cd), which is |P − cI|²_F/(cd) above its least, σ² + 1 − c.
    """
    d, k, noise = 4, 12, 0.5
    task = LinearRegression(features=d, supports=k, condition=1.0, noise=noise)
    c = 1 / (1 + (d + 1 + noise**2 * d) / k)
    learned = LearnedPreconditioners(1, updates=300).fit(task, seed=0)
    P = learned.preconditioners[0]
    least = noise**2 + 1 - c
    above = float((P - c * torch.eye(d)).square().sum() / (c * d))
    assert above < 0.005 * least
    # The closed form of the risk is that of the prompts.
    sample = held_out(task, 20_000)
    assert_mean(error(learned.predict(sample.prompt), sample), least + above)
    # The optimum is far from the step that ignores noise and the spread of S.
    assert (1 - c) ** 2 / c > 20 * 0.005 * least


def test_preconditioners_use_what_scalar_steps_cannot():
    """Features of unequal scale, the same in every prompt: a matrix serves, a number does not."""

    @dataclass(frozen=True)
    class Stretched(LinearRegression):
        def observe(self, batch, points, generator):
            x, y = super().observe(batch, points, generator)
            return x * torch.tensor([1.0, 0.1, 3.0], dtype=torch.float64), y

    task = Stretched(features=3, supports=16, condition=1.0)
    sample = held_out(task, 500)
    scalar, matrix = (
        made(3, updates=150).fit(task, seed=0).predict(sample.prompt)
        for made in (LearnedSteps, LearnedPreconditioners)
    )
    assert estimate(error(scalar, sample) - error(matrix, sample), seed=0).low > 0


def test_the_gradient_of_the_network_is_autograds():
    g = torch.Generator().manual_seed(0)
    w, U, v, x, y = (
        torch.randn(*shape, generator=g, dtype=torch.float64)
        for shape in ((4, 1), (4, 5), (5, 1), (1, 7, 4), (1, 7, 1))
    )
    leaves = [t.requires_grad_() for t in (w, U, v)]
    loss = (Network(w, U, v)(x) - y).square().sum() / 14
    expected = torch.autograd.grad(loss, leaves)
    for found, slope in zip(Network(w, U, v).gradient(x, y), expected, strict=True):
        torch.testing.assert_close(found[0], slope)


def test_an_adapter_without_hidden_output_is_gradient_descent():
    """With v = 0 that is not moved, the linear part alone learns: gradient descent on (x, 1)."""
    prompt = KernelDraw(features=3, supports=9).draw(2, seed=0)
    zeros = [torch.zeros(*shape, dtype=torch.float64) for shape in ((4, 1), (4, 2), (2, 1))]
    rates = torch.tensor([[0.2, 0.0, 0.0]] * 5, dtype=torch.float64)
    found = Adapter(5, 2, network=Network(*zeros), rates=rates).predict(prompt)
    one = [torch.cat([t, torch.ones_like(t[..., :1])], -1) for t in (prompt.phi, prompt.phi_query)]
    expected = FixedSteps(5, 0.2).predict(Prompt(one[0], prompt.y, one[1]))
    torch.testing.assert_close(found, expected)


# Of its few updates only these two tasks are sure to gain.
@pytest.mark.parametrize("task", ["linear", "gp"])
def test_a_taught_adapter_beats_one_that_was_not(task):
    sample = held_out(LEARNABLE[task](), 256)
    taught = error(fitted("adapter", task).predict(sample.prompt), sample)
    untaught = Adapter(updates=0).fit(LEARNABLE[task](), seed=0).predict(sample.prompt)
    assert estimate(error(untaught, sample) - taught, seed=0).low > 0
