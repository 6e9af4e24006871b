"""Shipped models: listed, found by name, and never trained in silence."""

import pytest
import torch
from tiny_models import LINEAR, cli, refused, train

from ridgeformer.models import zoo
from ridgeformer.training import TrainedModel


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "MODELS", tmp_path / "models")
    return tmp_path / "models"


def test_an_empty_zoo_says_so(models):
    assert zoo.names() == []
    assert "No model is shipped yet" in cli("zoo").stdout
    refused(cli("zoo", "path", "gp"), "There is no shipped model 'gp'", "none are shipped")


def test_a_shipped_model_is_listed_found_and_rebuilt(models, tmp_path):
    trained = TrainedModel.load(train(tmp_path, "pairs", LINEAR))
    scores = {"cpu minutes": 0.1, "by supports": {"8": {"excess": 0.5, "low": 0.4, "high": 0.6}}}
    model = TrainedModel(trained.transformer, trained.recipe, scores)
    model.save(models / "tiny")
    assert zoo.names() == ["tiny"]
    listed = cli("zoo")
    assert listed.exit_code == 0
    assert "tiny" in listed.stdout
    assert cli("zoo", "path", "tiny").stdout.strip() == str(models / "tiny")
    assert zoo.load("tiny").recipe == trained.recipe
    refused(cli("zoo", "rebuild", "other", "--out", tmp_path / "x"), "choose from tiny")
    assert not (tmp_path / "x").exists()
    done = cli("zoo", "rebuild", "tiny", "--out", tmp_path / "again", "--threads", "1")
    assert done.exit_code == 0, done.stderr
    assert "the same, bit for bit" in done.stdout
    again = TrainedModel.load(tmp_path / "again/model")
    for name, weight in trained.transformer.state_dict().items():
        assert again.transformer.state_dict()[name].equal(weight), name
    refused(
        cli("zoo", "rebuild", "tiny", "--out", tmp_path / "y", "--threads", "0"),
        "--threads must be at least 1",
    )
    with torch.no_grad():
        again.transformer.blocks[1].mlp.W_in[0, 0] += 0.25
    assert zoo.distance(trained, again) == pytest.approx(0.25)
