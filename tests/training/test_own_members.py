"""A task and a baseline of the user's own count as much as ours."""

import json

import pytest
from fork_server import cli, refused

from ridgeformer.baselines import BASELINES
from ridgeformer.registry import register
from ridgeformer.tasks import LEARNABLE, TASKS, KernelDraw, LinearRegression
from ridgeformer.training import Recipe
from ridgeformer.types import Refusal

OWN = """
from dataclasses import dataclass

import torch

import ridgeformer as rf
from ridgeformer.tasks.learnable import normal


@rf.register
@dataclass(frozen=True)
class Constant(rf.LearnableTask):
    noise: float = 0.5

    name = "constant"

    def observe(self, batch, points, generator):
        x = normal(generator, batch, points, self.features)
        level = normal(generator, batch, 1, 1)
        return x, level + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt):
        total = prompt.y.double().sum(1, keepdim=True)
        mean = total / (prompt.supports + self.noise**2)
        return mean.expand(-1, prompt.phi_query.shape[1], -1)


@rf.register
@dataclass(frozen=True)
class Mean(rf.Baseline):
    name = "mean"
    label = "The mean of the supports"

    def predict(self, prompt):
        mean = prompt.y.double().mean(1, keepdim=True)
        return mean.expand(-1, prompt.phi_query.shape[1], -1)
"""

RECIPE = """
name = "own"

[task]
name = "constant"
supports = 4
queries = 4
noise = 0.25

[model]
n_layers = 1
d_model = 8
n_heads = 1
d_head = 4
d_mlp = 8

[training]
steps = 20
batch = 8
warmup = 5
evaluate_every = 10
checkpoint_every = 10
"""


def test_a_task_of_the_users_own_is_trained_on_and_compared_with_a_baseline_of_theirs(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(RECIPE)
    command = ["--import", "own.py", "train", "own.toml", "--out", "run", "--threads", "1"]
    done = cli(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "run/model/config.json").read_text())
    assert saved["recipe"]["task"] == {
        "name": "constant", "features": 2, "supports": 4, "queries": 4, "noise": 0.25,
    }  # fmt: skip
    command = ["evaluate", "run/model", "--prompts", "16", "--baseline", "mean", "--out", "page"]
    done = cli("--import", "own.py", *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The mean of the supports" in (tmp_path / "page/index.html").read_text()
    refused(cli(*command, cwd=tmp_path), "no learnable task 'constant'")


@pytest.fixture
def own_registries(monkeypatch):
    """Registrations that end with the test."""
    for registry in (TASKS, LEARNABLE, BASELINES):
        monkeypatch.setattr(registry, "members", dict(registry.members))


@pytest.mark.usefixtures("own_registries")
def test_a_learnable_task_is_a_task_too():
    class Own(LinearRegression):
        name = "own"

    register(Own)
    assert TASKS.find("own") is LEARNABLE.find("own") is Own
    assert type(Recipe.from_dict({"name": "r", "task": {"name": "own"}}).task) is Own

    class Taken(LinearRegression):
        name = "spectrum"

    with pytest.raises(Refusal, match="a task 'spectrum' already"):
        register(Taken)
    assert "spectrum" not in LEARNABLE


@pytest.mark.usefixtures("own_registries")
def test_a_task_that_knows_no_best_predictor_is_not_learnable():
    class Own(KernelDraw):
        name = "own"

    register(Own)
    assert TASKS.find("own") is Own
    assert "own" not in LEARNABLE
    with pytest.raises(Refusal, match="no learnable task 'own'"):
        Recipe.from_dict({"name": "r", "task": {"name": "own"}})
    assert set(LEARNABLE) < set(TASKS)
