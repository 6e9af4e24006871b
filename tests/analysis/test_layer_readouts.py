"""Readouts of layers find what is there, and nothing that does not depend on y."""

import pytest
import torch
from subjects import SMALL, compiled_subject

from ridgeformer.analysis.layer_readouts import (
    fit_readouts,
    halves,
    query_reader,
    support_reader,
)
from ridgeformer.solvers import krr_coefficients
from ridgeformer.types import Refusal


def test_a_linear_map_is_recovered_in_the_units_of_the_stream():
    generator = torch.Generator().manual_seed(0)
    stream = torch.randn(2, 50, 3, 4, generator=generator, dtype=torch.float64)
    stream[..., 1] = 7.0  # constant
    stream[..., 2] *= 1e6
    target = stream[0, ..., :1] - 1e-6 * stream[0, ..., 2:3] + 3
    found = fit_readouts(stream, target)
    expected = torch.tensor([[1.0], [0.0], [-1e-6], [0.0]], dtype=torch.float64)
    torch.testing.assert_close(found.weights[0], expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found(stream)[0], target, rtol=1e-6, atol=1e-6)
    assert (found(stream)[1] - target).square().mean() > 1.5, "the other layer knows nothing of it"


def test_what_does_not_depend_on_y_has_no_weight():
    fitted, scored = halves(SMALL.draw(60, seed=0))
    subject = compiled_subject("gd")
    read = query_reader(subject, fitted)(scored)
    assert read.shape == (subject.read(scored).layers + 1, 30, 4, 1)
    torch.testing.assert_close(
        read[-2], read[-1], rtol=1e-5, atol=1e-6
    )  # read[-1] is the model's own
    flipped = type(scored)(scored.phi, -scored.y, scored.phi_query)
    torch.testing.assert_close(query_reader(subject, fitted)(flipped), -read, atol=1e-6, rtol=1e-6)


def test_the_residual_at_the_supports_is_read_where_alpha_is_kept():
    """λα of the compiled solver is what its supports hold; its queries say nothing until the end."""
    fitted, scored = halves(SMALL.draw(120, seed=1))
    read = support_reader(compiled_subject("cg", 5), fitted)(scored)
    exact = SMALL.ridge * krr_coefficients(scored, ridge=SMALL.ridge)
    assert (read[-1] - exact).square().mean() < 1e-6 * exact.square().mean()
    apart = (read[:-1] - exact).square().mean((1, 2, 3)) / exact.square().mean()
    assert apart[0] > 0.02
    assert apart[-1] < 1e-4


def test_too_few_prompts_are_refused():
    with pytest.raises(Refusal, match="at least 4 prompts, got 3"):
        halves(SMALL.draw(3, seed=0))
