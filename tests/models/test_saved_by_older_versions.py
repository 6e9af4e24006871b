"""Models that version 0.1 saved still load, and predict the same bits."""

import json
from pathlib import Path

import pytest
import torch

from ridgeformer.compiler import CompiledModel, LinearAttention, compile
from ridgeformer.models import load, reference, trajectory
from ridgeformer.solvers import GradientDescent
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.types import Refusal

SAVED = Path(__file__).parents[1] / "data/gd-saved-by-0.1"


def test_a_model_of_version_0_1_predicts_the_same_bits():
    old = load(SAVED)
    assert isinstance(old, CompiledModel)
    today = compile(
        GradientDescent(), features=4, steps=4, ridge=1.0, to=LinearAttention(max_eigenvalue=16.0)
    )
    weights = today.transformer.state_dict()
    for name, weight in old.transformer.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    prompt = PrescribedSpectrum(features=4, supports=9, condition=10).draw(5, seed=0)
    assert torch.equal(old.predict(prompt), today.predict(prompt))
    assert torch.equal(trajectory(old, prompt).predictions, trajectory(today, prompt).predictions)
    torch.testing.assert_close(
        trajectory(old, prompt).predictions, reference(old, prompt).predictions
    )


def test_its_certificate_is_saved_as_it_was(tmp_path):
    saved = json.loads((SAVED / "config.json").read_text())
    load(SAVED).save(tmp_path / "again")
    again = json.loads((tmp_path / "again/config.json").read_text())
    assert again["certificate"] == saved["certificate"]
    assert again["sites"] == saved["sites"]


def test_roles_that_it_did_not_note_are_refused():
    old = load(SAVED)
    assert len(old.heads()) == 4
    with pytest.raises(Refusal, match="did not note the roles"):
        old.heads(role="matvec")
