"""Which λ is taken: solvers, the closed form and the compiler have one rule."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.types import Refusal

TOP = 19.0
LOST = 2.0**-53 * TOP
"""Below it, λ_max(K) + λ rounds to λ_max(K)."""


def prompt(at=TOP, short=1e-3):
    """K of rank 1 with one support of norm √at, and others along it: singular, as the hardest are."""
    direction = torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64)
    lengths = torch.tensor([1.0, short, short, short], dtype=torch.float64)
    phi = (at / lengths.square().sum()).sqrt() * lengths[:, None] * direction
    y = torch.tensor([1.0, 0.5, -0.5, 2.0], dtype=torch.float64)
    return rf.Prompt(phi, y, direction[None])


def asked(ridge, short=1e-3):
    """What each says to λ."""
    to = rf.LinearAttention(TOP)
    return {
        "compile": lambda: rf.compile(
            rf.GradientDescent(), features=3, steps=2, ridge=ridge, to=to
        ),
        "krr": lambda: rf.krr(prompt(short=short), ridge=ridge),
        "solve": lambda: rf.solve(rf.GradientDescent(), prompt(), steps=2, ridge=ridge),
    }


@pytest.mark.parametrize("ridge", [1e-30, 0.1 * LOST, 0.0, -1.0, float("nan"), float("inf")])
def test_all_refuse(ridge):
    """The closed form looks at K itself: λ is lost where all supports are as long as the longest."""
    for ask in asked(ridge, short=1.0).values():
        with pytest.raises(Refusal, match="ridge"):
            ask()


@pytest.mark.parametrize("ridge", [1.01 * LOST, 1e-13, 1e-3, 1e9])
def test_all_serve(ridge):
    for ask in asked(ridge).values():
        ask()
    assert torch.isfinite(rf.krr(prompt(), ridge=ridge)).all()


def test_the_closed_form_takes_what_is_regular_without_a_ridge():
    """Kernel values of 10⁷¹ and more, as an exponential kernel has at low temperatures, leave nothing of λ."""
    phi = torch.diag(torch.tensor([1e40, 1e36, 1.0], dtype=torch.float64))
    y = torch.tensor([1.0, 0.5, -0.5], dtype=torch.float64)
    found = rf.krr(rf.Prompt(phi, y, phi), ridge=1.0)[0, :, 0]
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, -0.25], dtype=torch.float64))


def test_the_closed_form_where_cholesky_fails():
    """Round-off makes an eigenvalue of K + λI negative, where K is singular and λ is as small as it may be."""
    failed = 0
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.rand(8, 30, 1, generator=generator, dtype=torch.float64)
        phi = lengths * torch.randn(8, 1, 3, generator=generator, dtype=torch.float64)
        weights = torch.randn(8, 3, 1, generator=generator, dtype=torch.float64)
        p = rf.Prompt(
            phi, phi @ weights, torch.randn(8, 5, 3, generator=generator, dtype=torch.float64)
        )
        gram = phi @ phi.mT
        ridge = 1.01 * 2.0**-53 * float(gram.diagonal(dim1=1, dim2=2).max())
        failed += int(torch.linalg.cholesky_ex(gram + ridge * torch.eye(30))[1].count_nonzero())
        # (ΦᵀΦ + λI)w = Φᵀy, and Φ has one direction
        square = phi.square().sum((1, 2))[:, None, None]
        along = phi.mT @ p.y / (square + ridge)
        torch.testing.assert_close(
            rf.krr(p, ridge=ridge), p.phi_query @ along, rtol=1e-9, atol=1e-9
        )
    assert failed > 0


def test_values_beyond_floating_point_are_refused():
    p = prompt()
    huge = rf.Prompt(1e200 * p.phi, p.y, p.phi_query)
    for ask in (
        lambda: rf.krr(huge, ridge=1.0),
        lambda: rf.solve(rf.GradientDescent(), huge, steps=1, ridge=1.0),
    ):
        with pytest.raises(Refusal):
            ask()
