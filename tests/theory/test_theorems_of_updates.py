"""Round-off of single updates, where a new iterate takes the channel of an old one."""

import pytest
import torch
from theorem_cases import largest_ratio

from ridgeformer import theory
from ridgeformer.experiments.theorems import precision
from ridgeformer.solvers import Chebyshev, HeavyBall
from ridgeformer.tasks import Prompt

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]

U = theory.UNIT["float32"]


@pytest.mark.parametrize("solver", [Chebyshev(), HeavyBall()], ids=lambda s: s.name)
def test_the_last_step_may_be_written_where_the_iterate_was(solver):
    """After it nothing reads α_s, so that the rounding of α_s counts, and not that of α_{s−1} alone."""
    generator = torch.Generator().manual_seed(6)
    y = torch.randn(512, 1, 1, generator=generator).double()
    place = torch.full_like(y, 2.0**-7)
    prompt = Prompt(place, y, place)
    for top, steps in ((0.01, 2), (0.5, 2), (0.5, 3), (9.0, 4)):
        interval = (1.0, 1.0 + top)
        alphas = precision.run_model(solver, prompt, top, steps, "float32").states["alpha"]
        local = precision.residual_errors(solver, prompt, alphas, interval)
        options = {"ridge": 1.0, "interval": interval, "unit": U}
        bound = theory.residual_round_off_bound(solver, prompt, alphas, **options)
        assert largest_ratio(local, bound) > 0.1
        held, centre = alphas.double().abs()[:, :, 0], 1 + top / 2
        updates = theory.residual_round_off_terms(solver, prompt, alphas, **options)["updates"]
        few = theory.accumulated(7, U)
        at_the_end = (few + U) * centre * (held[-3] + held[-2])
        torch.testing.assert_close(updates[-1], at_the_end)
        if steps > 2:
            before = (few + U) * centre * held[-4] + few * (centre - 1) * held[-3]
            torch.testing.assert_close(updates[-2], before)
