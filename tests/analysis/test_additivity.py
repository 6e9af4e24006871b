"""Fixed coefficients are linear in y to round-off; conjugate gradients are not, and saturation is neither."""

import pytest
import torch
from subjects import (
    KERNEL,
    SMALL,
    TASK,
    Predictor,
    compiled,
    compiled_subject,
    iterates,
    read_exactly,
    softmax_richardson,
)

from ridgeformer.analysis import find_additivity
from ridgeformer.analysis.additivity import defects
from ridgeformer.models import subject, zoo
from ridgeformer.tasks import MixtureOfRegressions
from ridgeformer.types import Refusal


def means(estimates):
    return [e.mean for e in estimates]


@pytest.mark.parametrize("name", ["gd", "chebyshev", "heavy-ball", "newton"])
def test_fixed_coefficients_are_additive_to_round_off(name):
    found = defects(iterates(name, steps=4), TASK, TASK.draw(50, seed=0), seed=0)
    assert max(means(found.additivity)) < 1e-28
    assert all(max(means(row)) < 1e-28 for row in found.homogeneity.values())


def test_conjugate_gradients_are_homogeneous_and_not_additive():
    found = defects(iterates("cg", steps=8), TASK, TASK.draw(400, seed=0), seed=0)
    expected = [0.12, 0.16, 0.25, 0.28]
    for e, value in zip(found.additivity, expected, strict=False):
        assert e.mean == pytest.approx(value, rel=0.2)
        assert e.low < e.mean < e.high
    assert found.additivity[-1].mean < 0.005, "it has nearly ended"
    assert all(max(means(row)) < 1e-20 for row in found.homogeneity.values())


@pytest.mark.parametrize("name", ["gd", "chebyshev", "newton", "cg"])
def test_compiled_models_have_the_defects_of_their_solvers(name):
    prompt = SMALL.draw(100, seed=3)
    found = defects(read_exactly(compiled(name)), SMALL, prompt, seed=0)
    solver = defects(
        iterates(name, SMALL, steps=4, interval=(SMALL.ridge, SMALL.ridge + 100.0)),
        SMALL, prompt, seed=0,
    )  # fmt: skip
    if name == "cg":
        assert means(found.additivity) == pytest.approx(means(solver.additivity), abs=1e-5)
        assert found.additivity[1].low > 0.02
    else:
        assert max(means(found.additivity)) < 1e-20


def test_row_sum_richardson_behind_softmax_is_additive():
    found = defects(read_exactly(softmax_richardson()), KERNEL, KERNEL.draw(40, seed=0), seed=0)
    assert max(means(found.additivity)) < 1e-20


def test_fitted_readouts_leave_the_answer_as_it_is():
    fixed = find_additivity(compiled_subject("gd"), SMALL, prompts=120, seed=0)
    adaptive = find_additivity(compiled_subject("cg"), SMALL, prompts=120, seed=0)
    assert max(means(fixed.additivity)) < 1e-12
    assert max(means(adaptive.additivity)) > 0.02


def test_a_model_that_saturates_is_neither_and_its_error_bounds_what_is_seen():
    saturated = Predictor(lambda prompt: TASK.best(prompt).tanh())
    found = find_additivity(saturated, TASK, prompts=200, seed=0)
    assert found.additivity[-1].low > 0.002
    assert found.homogeneity[2.0][-1].low > 0.02
    assert found.homogeneity[-1.0][-1].mean < 1e-20, "tanh is odd"
    generator = torch.Generator().manual_seed(0)
    noisy = Predictor(
        lambda prompt: (
            TASK.best(prompt)
            + 0.1 * torch.randn(prompt.phi_query.shape[:2], generator=generator)[..., None].double()
        )
    )
    found = find_additivity(noisy, TASK, prompts=200, seed=0)
    assert found.additivity[-1].mean == pytest.approx(found.resolution.mean, rel=0.1)
    assert found.resolution.mean == 2 * found.error.mean


@pytest.mark.parametrize(("name", "first"), [("linear-attention", 3.5e-4), ("linear", 0.0102)])
def test_shipped_models_use_fixed_coefficients(name, first):
    found = find_additivity(subject(zoo.load(name)), TASK, prompts=100, seed=0)
    assert found.additivity[0].mean == pytest.approx(first, rel=0.5)
    assert max(means(found.additivity)) < 0.02, "conjugate gradients have .11 at least"
    assert found.additivity[-1].mean < found.resolution.mean


def test_a_task_without_such_targets_is_refused():
    task = MixtureOfRegressions()
    with pytest.raises(Refusal, match="one centred Gaussian law"):
        defects(lambda prompt: prompt.phi_query[None, ..., :1], task, task.draw(8, seed=0), seed=0)
