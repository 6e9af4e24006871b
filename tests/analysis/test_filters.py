"""Filters: those of fixed-coefficient methods are found, and conjugate gradients have none."""

import pytest
import torch
from subjects import (
    KERNEL,
    SMALL,
    TASK,
    compiled,
    compiled_subject,
    iterates,
    read_exactly,
    softmax_richardson,
)

from ridgeformer.analysis import find_filters
from ridgeformer.analysis.filters import filters_of, hats
from ridgeformer.analysis.layer_readouts import halves
from ridgeformer.models import subject, zoo


def r_squared(found):
    return [e.mean for e in found.r_squared]


def test_hats_add_up_to_one_and_interpolate():
    knots = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    x = torch.tensor([[-1.0, 0.5, 1.0, 2.0, 9.0]], dtype=torch.float64)
    expected = [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    torch.testing.assert_close(hats(x, knots)[0], torch.tensor(expected, dtype=torch.float64))


def test_gradient_descent_has_the_filter_of_the_textbook():
    """g_t(σ) = 1 − (1 − ησ)^t."""
    read = iterates("gd", steps=3, interval=(2.0, 250.0))
    found = filters_of(read, TASK.law(), TASK.draw(300, seed=0), knots=14, seed=0)
    assert min(r_squared(found)) > 0.999
    for t, curve in enumerate(found.curves, start=1):
        for sigma, g in list(zip(found.knots, curve, strict=True))[3:-1]:
            assert g.mean == pytest.approx(1 - (1 - 2 * sigma / 252) ** t, abs=0.03)
            assert g.low <= g.mean <= g.high


@pytest.mark.parametrize(
    ("name", "options", "knots", "least"),
    [
        ("gd", {}, 10, 0.999),
        ("newton", {"plain": True}, 10, 0.999),
        ("newton", {}, 24, 0.99),
        ("chebyshev", {}, 10, 0.98),
        ("heavy-ball", {}, 10, 0.98),
    ],
)
def test_fixed_coefficients_are_a_filter(name, options, knots, least):
    read = iterates(name, steps=5, **options)
    found = filters_of(read, TASK.law(), TASK.draw(300, seed=0), knots=knots, seed=0)
    assert min(r_squared(found)) > least


def test_prompts_that_fitted_a_filter_do_not_score_it():
    """What is a filter on the prompts that fit, and nothing of the kind on the others, explains nothing there."""
    prompt, exact = TASK.draw(80, seed=0), iterates("gd", steps=2)
    fitted, _ = halves(prompt)

    def read(part):
        sign = 1.0 if torch.equal(part.phi, fitted.phi) else -1.0
        return sign * exact(part)

    found = filters_of(read, TASK.law(), prompt, seed=0)
    assert max(r_squared(found)) < -2


def test_the_filter_of_conjugate_gradients_differs_from_prompt_to_prompt():
    found = filters_of(iterates("cg"), TASK.law(), TASK.draw(400, seed=0), seed=0)
    assert max(r_squared(found)[:5]) < 0.95
    assert found.r_squared[2].high < 0.92
    assert r_squared(found)[-1] > 0.99, "at the end every method is ridge regression"


@pytest.mark.parametrize("name", ["gd", "chebyshev", "newton", "cg"])
def test_compiled_models_have_the_filters_of_their_solvers(name):
    prompt = SMALL.draw(200, seed=1)
    found = r_squared(filters_of(read_exactly(compiled(name)), SMALL.law(), prompt, seed=0))
    assert min(found) < 0.97 if name == "cg" else min(found) > 0.99


def test_compiled_gradient_descent_is_a_filter_at_its_supports():
    """Its queries say nothing before the last layer; α at the supports has a filter in every layer."""
    prompt = SMALL.draw(160, seed=1)
    found = find_filters(compiled_subject("gd"), SMALL.law(), prompt, at="supports", seed=0)
    assert min(r_squared(found)) > 0.97
    early, last = found.curves[0], found.curves[-1]
    assert found.knots[0] == pytest.approx(SMALL.ridge)
    assert last[0].mean == pytest.approx(1, abs=0.02)
    assert early[0].mean != pytest.approx(last[0].mean, abs=0.05)


def test_the_basis_tells_the_preconditioner():
    read, prompt = read_exactly(softmax_richardson()), KERNEL.draw(300, seed=0)
    found = {
        kind: r_squared(filters_of(read, KERNEL.law(), prompt, precondition=kind, seed=0))
        for kind in ("none", "jacobi", "row-sum")
    }
    assert min(found["row-sum"]) > 0.999
    assert max(found["none"]) < 0.998
    assert found["none"] == pytest.approx(found["jacobi"], abs=1e-6)  # the diagonal is constant


@pytest.mark.parametrize(
    ("name", "expected"),
    [("linear-attention", [0.987, 0.988, 0.989, 0.9996]), ("linear", [0.936, 0.971, 0.982, 0.993])],
)
def test_shipped_models_are_filters_that_learn_large_eigenvalues_first(name, expected):
    prompt = TASK.draw(200, seed=0)
    found = find_filters(subject(zoo.load(name)), TASK.law(), prompt, seed=0)
    assert r_squared(found)[:4] == pytest.approx(expected, abs=0.015)
    curve = [g.mean for g in found.curves[0]]
    assert curve[-2] > 0.8
    assert curve[3] < 0.4
