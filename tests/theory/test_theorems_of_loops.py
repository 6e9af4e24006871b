"""Looped models: errors of a pass do not add up over the passes."""

import numpy as np
import pytest

from ridgeformer.experiments.theorems.loops import disturbed
from ridgeformer.solvers import Chebyshev
from ridgeformer.theory import (
    chebyshev_divisors,
    chebyshev_factor,
    divisor_error_bound,
    semi_iteration_weights,
)

CONDITIONS = (1.5, 10.0, 1e3, 1e6)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_errors_of_reciprocals_do_not_add_up_over_the_passes(condition):
    exact = chebyshev_divisors(condition, 5000)
    for error in (1e-2, 1e-4, 1e-6):
        off = np.array(disturbed(condition, 5000, error)) - exact
        assert off.min() > -1e-12
        assert off.max() <= divisor_error_bound(error, condition)
    # Where a constant error settles: ε(1 − d)/(1 − e^(−2θ)), and the bound is 2ε/(1 − e^(−2θ)).
    small = disturbed(condition, 5000, 1e-8)[-1] - exact[-1]
    settled = divisor_error_bound(1e-8, condition) * (1 - exact[-1]) / 2
    assert small == pytest.approx(settled, rel=1e-3)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_divisors_are_those_of_the_solver_and_of_its_polynomials(condition):
    divisors = chebyshev_divisors(condition, 30)
    assert divisors[0] == pytest.approx(0.5)
    assert (np.diff(divisors) > -1e-15).all()
    weights = semi_iteration_weights(Chebyshev(), steps=8, tuned=(1.0, condition))
    omegas = [omega for omega, _ in weights]
    assert omegas[0] == pytest.approx(1.0), "the first step is one of Richardson's"
    np.testing.assert_allclose(1 / np.array(omegas[1:]), divisors[1:8], rtol=1e-8)
    # ρτ_t/2τ_{t−1}: their product is that of the worst residuals.
    rho = (condition - 1) / (condition + 1)
    worst = [chebyshev_factor(condition, t) for t in range(31)]
    np.testing.assert_allclose(rho / (2 * divisors), np.array(worst[1:]) / worst[:-1], rtol=1e-9)
