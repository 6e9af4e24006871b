"""Degrees: the best polynomials of the task, and what they say of methods whose products are known."""

import pytest
import torch
from subjects import KERNEL, SMALL, TASK, compiled_subject, iterates

from ridgeformer.analysis import find_degrees
from ridgeformer.analysis.degree import DEGREES, degrees_of, least_degree
from ridgeformer.models import subject, zoo
from ridgeformer.solvers import krr
from ridgeformer.types import Refusal


def means(estimates):
    return [e.mean for e in estimates]


def test_the_best_polynomials_of_the_linear_task():
    found = degrees_of(iterates("gd"), TASK.law(), TASK.draw(600, seed=1), seed=0)
    expected = [0.335, 0.158, 0.085, 0.047, 0.018, 0.0071, 0.0014, 4e-4]
    for estimate, value in zip(found.best, expected, strict=False):
        assert value / 2 < estimate.mean < 1.2 * value
    assert found.best[-1].mean < 6e-5
    assert means(found.best) == sorted(means(found.best), reverse=True)


def test_a_whole_degree_is_read_off_its_own_error():
    best = torch.tensor([[0.5, 0.1, 0.01]], dtype=torch.float64)
    errors = torch.tensor([[2.0, 1.0, 0.5, 0.1, 0.0316227766, 0.01, 1e-9]], dtype=torch.float64)
    found = least_degree(errors, best, (1, 2, 4))[0].tolist()
    assert found == pytest.approx([0, 0, 1, 2, 3, 4, 4])


@pytest.mark.parametrize("name", ["gd", "chebyshev", "heavy-ball"])
def test_methods_with_one_product_a_step_need_no_more(name):
    read = iterates(name, steps=10, interval=(5.0, 230.0))
    found = degrees_of(read, TASK.law(), TASK.draw(300, seed=0), seed=0)
    for t, needed in enumerate(found.needed, start=1):
        assert needed.mean < t + 0.3
    assert found.growth.pace == "one product a layer"


@pytest.mark.parametrize("options", [{}, {"plain": True}])
def test_newtons_iteration_doubles(options):
    read = iterates("newton", steps=7, interval=(5.0, 230.0), **options)
    found = degrees_of(read, TASK.law(), TASK.draw(300, seed=0), seed=0)
    assert found.growth.pace == "doubling"
    assert found.growth.doublings.low > 0.6


def test_preconditioned_polynomials_bound_preconditioned_richardson():
    read = iterates("richardson", KERNEL, steps=4, interval=(0.02, 1.05), precondition="row-sum")
    prompt = KERNEL.draw(300, seed=0)
    found = degrees_of(read, KERNEL.law(), prompt, precondition="row-sum", seed=0)
    for t in range(1, 5):
        assert found.best[t - 1].mean <= 1.02 * found.errors[t - 1].mean
    plain = degrees_of(read, KERNEL.law(), prompt, seed=0)
    assert found.best[1].mean < plain.best[1].mean, "row sums help on this task"


def test_a_layer_that_knows_the_solution_needs_the_largest_degree():
    law = SMALL.law()

    def exact(prompt):
        return krr(prompt, ridge=law.ridge)[None].expand(3, -1, -1, -1)

    found = degrees_of(exact, law, SMALL.draw(40, seed=0), seed=0)
    assert means(found.needed) == [DEGREES[-1]] * 3
    assert found.growth.pace == "unresolved"
    with pytest.raises(Refusal, match="rise from 1"):
        degrees_of(exact, law, SMALL.draw(40, seed=0), degrees=(2, 1), seed=0)


def test_a_compiled_model_is_read_layer_by_layer():
    found = find_degrees(compiled_subject("gd"), SMALL.law(), SMALL.draw(120, seed=0), seed=0)
    assert found.needed[-1].mean < 4.3, "it takes four products"
    assert found.errors[-2].mean == pytest.approx(found.errors[-1].mean, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "errors", "pace"),
    [
        ("linear-attention", [0.334, 0.068, 0.0145, 0.0005], "doubling"),
        ("linear", [0.27, 0.091, 0.038, 0.011, 0.0040, 0.0016], "several products a layer"),
    ],
)
def test_the_pace_of_shipped_models(name, errors, pace):
    found = find_degrees(subject(zoo.load(name)), TASK.law(), TASK.draw(200, seed=0), seed=0)
    assert means(found.errors)[: len(errors)] == pytest.approx(errors, rel=0.25)
    assert found.growth.pace == pace
