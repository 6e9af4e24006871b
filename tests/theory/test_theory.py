"""Bounds hold, and are not vacuous."""

import numpy as np
import pytest
import torch

from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.theory import cg_prediction_bound, cg_rate, chebyshev_factor, richardson_rate


@pytest.mark.parametrize("condition", [2.0, 30.0, 1e3])
@pytest.mark.parametrize("shape", ["geometric", "uniform"])
def test_cgs_bound_holds_and_means_something(condition, shape):
    task = PrescribedSpectrum(condition=condition, supports=24, features=10, outputs=2, shape=shape)
    prompt = task.draw(50, seed=0)
    bound = cg_prediction_bound(prompt, ridge=1.0, steps=8)
    found = solve(ConjugateGradient(), prompt, steps=8, ridge=1.0)
    exact = krr(prompt, ridge=1.0)
    ratio = (found.predictions - exact).abs() / (bound + 1e-13 * exact.abs().max())
    assert float(ratio.max()) <= 1
    assert float(ratio.max()) > 0.1


def test_the_bounds_factors_are_the_definitions():
    """In double precision: 0.4514… is no number of single precision, as 0.5 would be."""
    prompt = PrescribedSpectrum(condition=7.0, supports=6, features=3).draw(1, seed=0)
    A = prompt.phi[0] @ prompt.phi[0].T + torch.eye(6, dtype=torch.float64)
    inverse = torch.linalg.inv(A)
    k, y = prompt.phi[0] @ prompt.phi_query[0, 0], prompt.y[0, :, 0]
    alpha = inverse @ y
    rate = (7**0.5 - 1) / (7**0.5 + 1)
    expected = (k @ inverse @ k).sqrt() * 2 * rate**3 * (alpha @ A @ alpha).sqrt()
    found = cg_prediction_bound(prompt, ridge=1.0, steps=3)[3, 0, 0, 0]
    np.testing.assert_allclose(float(found), float(expected), rtol=1e-10)


def test_rates():
    assert cg_rate(9.0) == pytest.approx(0.5)
    assert richardson_rate(9.0) == pytest.approx(0.8)
    assert chebyshev_factor(9.0, 1) == pytest.approx(0.8)
    assert chebyshev_factor(9.0, 2) == pytest.approx(1 / (2 * 1.25**2 - 1))
    assert chebyshev_factor(1.0, 3) == 0
