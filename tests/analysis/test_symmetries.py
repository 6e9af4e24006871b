"""Symmetries: held by compiled solvers and the best predictor, and broken where a model breaks them."""

import pytest
import torch
from subjects import SMALL, TASK, Predictor, compiled_subject

from ridgeformer.analysis import find_symmetries
from ridgeformer.models import subject, zoo
from ridgeformer.tasks import GaussianProcess


def by_name(rows):
    return {row.name: row for row in rows}


@pytest.mark.parametrize("name", ["gd", "cg", "newton"])
def test_compiled_solvers_have_every_symmetry(name):
    found = find_symmetries(compiled_subject(name), SMALL, prompts=30, seed=0)
    assert len(found.symmetries) == 5
    for row in found.symmetries:
        assert row.change.mean < 1e-10, row
        assert row.control.low > 0.02, row
        assert row.best_control.low > 0.02, row


def test_the_best_predictor_stays_itself_out_of_range():
    found = find_symmetries(Predictor(TASK.best), TASK, prompts=40, seed=0)
    for row in found.symmetries:
        assert row.change.mean < 1e-20
        assert row.control == row.best_control
    grown = by_name(found.out_of_range)
    assert all(e.mean == 0 for row in found.out_of_range for e in row.errors)
    assert [e.mean for e in grown["queries"].best_change] == pytest.approx([0, 1, 9, 81])
    assert grown["features"].best_change[1].low > 1e-4, "λ stays as it is"


def test_a_broken_symmetry_is_found_and_no_other():
    weights = torch.linspace(0, 2, TASK.supports, dtype=torch.float64)[:, None]

    def in_order(prompt):
        return TASK.best(type(prompt)(prompt.phi, weights * prompt.y, prompt.phi_query))

    found = by_name(find_symmetries(Predictor(in_order), TASK, prompts=40, seed=0).symmetries)
    assert found["order"].change.low > 0.1
    assert max(row.change.mean for name, row in found.items() if name != "order") < 1e-20

    def saturated(prompt):
        return TASK.best(prompt).tanh()

    found = find_symmetries(Predictor(saturated), TASK, prompts=40, seed=0)
    rows = by_name(found.symmetries)
    assert rows["order"].change.mean < 1e-20
    assert rows["targets × -1"].change.mean < 1e-20
    assert rows["targets × 2"].change.low > 0.02
    errors = [e.mean for e in by_name(found.out_of_range)["targets"].errors]
    assert errors == sorted(errors)
    assert errors[-1] > 0.5


def test_rotations_are_left_out_where_inputs_have_directions():
    found = find_symmetries(Predictor(GaussianProcess().best), GaussianProcess(), prompts=8, seed=0)
    assert "rotation" not in by_name(found.symmetries)


@pytest.mark.parametrize("name", ["linear-attention", "linear"])
def test_shipped_models_are_symmetric_within_their_error(name):
    found = find_symmetries(subject(zoo.load(name)), TASK, prompts=24, seed=0)
    rows = by_name(found.symmetries)
    assert rows["order"].change.mean < 1e-8
    assert rows["rotation"].change.mean < 2e-3
    assert rows["targets × -1"].change.mean < 2e-3
    assert all(
        row.control.mean == pytest.approx(row.best_control.mean, rel=0.5) for row in rows.values()
    )
    for row in found.out_of_range:
        assert row.errors[0].mean < 2e-3
        worst = row.errors[2].mean
        assert worst is None or worst > 10 * row.errors[0].mean, "it was trained on no such prompts"
