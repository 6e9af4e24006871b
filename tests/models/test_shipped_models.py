"""What is shipped: small, as its recipes say, as good as it says, and run by every command."""

import shutil
from pathlib import Path

import numpy as np
import numpy_executor
import pytest
import torch
from scipy.optimize import minimize
from tiny_models import cli, refused

import ridgeformer as rf
from ridgeformer.baselines.gradient_descent import descend, moments, scalar
from ridgeformer.models import zoo
from ridgeformer.tasks import generator_of
from ridgeformer.training import Held, predictions, recipes
from ridgeformer.training.final import PROMPTS, SEED
from ridgeformer.training.scores import errors, excess

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/training.md").read_text()
WANTED = [
    name + seed
    for name in ("gp", "gp-causal", "linear", "linear-20", "linear-attention", "polynomial")
    for seed in ("", "-1")
]
NAMES = zoo.names()
FIRST_SEEDS = [name for name in NAMES if not name.endswith("-1")]

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def models():
    return {name: zoo.load(name) for name in NAMES}


def held_of(task):
    return Held.draw(task, PROMPTS, SEED, task.supports)


def test_all_are_there_and_small():
    assert set(NAMES) == set(WANTED)
    files = [path for path in zoo.MODELS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 20e6
    assert {path.name for path in files} == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_of_its_recipe(models, name):
    base = name.removesuffix("-1")
    recipe = recipes.load(base).to_dict()
    assert models[name].recipe.to_dict() == recipe | {"seed": int(name != base)}
    scores = models[name].scores
    assert scores["steps"] == recipe["training"]["steps"]
    assert 0 < scores["cpu minutes"] <= 90
    assert scores["threads"] == 1


@pytest.mark.parametrize(
    "name",
    [n if n in FIRST_SEEDS else pytest.param(n, marks=pytest.mark.slow) for n in NAMES],
)
def test_each_is_as_good_as_it_says(models, name):
    model = models[name]
    task, said = model.recipe.task, model.scores["by supports"]
    held = held_of(task)
    found = excess(predictions(model.layout, model.transformer, held.sample.prompt), held, True)
    assert found.mean == pytest.approx(said[str(task.supports)]["excess"], rel=0.01, abs=1e-6)
    assert list(said) == ["4", "8", "16", str(task.supports)]
    for score in said.values():
        assert score["low"] <= score["excess"] <= score["high"]


@pytest.mark.parametrize(
    ("family", "most"),
    [("gp", 0.002), ("gp-causal", 0.003), ("linear", 0.005), ("linear-20", 0.01)],
)
def test_the_reference_models_are_nearly_bayes(models, family, most):
    for name in (family, f"{family}-1"):
        model = models[name]
        supports = str(model.recipe.task.supports)
        assert model.scores["by supports"][supports]["excess"] <= most


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("linear")])
def test_linear_models_are_scored_by_condition_number(models, name):
    parts = models[name].scores["by part"]
    assert list(parts) == ["κ = 1", "κ = 3", "κ = 10", "κ = 30", "κ = 100"]


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("linear-attention")])
def test_linear_attention_is_no_worse_than_the_best_descent_of_its_depth(models, name):
    """Prompts are as likely as their rotations, so that the best preconditioners are scalars."""
    model = models[name]
    task, layers = model.recipe.task, model.transformer.config.n_layers
    sample = task.sample(2048, generator_of(5))
    known = moments(sample.prompt)

    def risk(rates):
        steps = scalar(torch.as_tensor(rates), task.features)
        return float(errors(sample.prompt.phi_query @ descend(known, steps), sample.targets).mean())

    starts = [
        np.full(layers, 0.2),
        0.4 / (1 + 0.8 * np.cos(np.pi * (np.arange(layers) + 0.5) / layers)),
    ]
    best = min((minimize(risk, start, method="L-BFGS-B") for start in starts), key=lambda r: r.fun)
    held = held_of(task)
    prompt, targets = held.sample.prompt, held.sample.targets
    descent = prompt.phi_query @ descend(
        moments(prompt), scalar(torch.as_tensor(best.x), task.features)
    )
    ours = predictions(model.layout, model.transformer, prompt)
    assert errors(ours, targets).mean() <= 1.05 * errors(descent, targets).mean()


@pytest.mark.parametrize("name", NAMES)
def test_numpy_gives_the_same_predictions(models, name):
    model = models[name]
    prompt = model.recipe.task.draw(3, seed=0).to(torch.float32)
    found = numpy_executor.run(
        zoo.path_of(name), *(t.numpy() for t in (prompt.phi, prompt.y, prompt.phi_query))
    )
    np.testing.assert_allclose(model.predict(prompt).numpy(), found, rtol=1e-3, atol=1e-4)


def test_trained_and_compiled_models_read_the_same_file(tmp_path, models):
    task = models["linear"].recipe.task
    held = Held.draw(task, 8, seed=0)
    prompt = held.sample.prompt
    prompt.save(tmp_path / "p.npz")
    rf.compile(
        rf.ConjugateGradient(),
        features=8,
        steps=9,
        ridge=task.ridge,
        to=rf.LinearAttention(max_eigenvalue=1000.0),
    ).save(tmp_path / "cg")
    places = [tmp_path / "cg", zoo.path_of("linear"), zoo.path_of("linear-attention")]
    for place in places:
        out = tmp_path / f"{place.name}.npz"
        result = cli("predict", place, tmp_path / "p.npz", "--out", out)
        assert result.exit_code == 0, result.output
        found = torch.from_numpy(np.load(out)["prediction"]).double()
        assert errors(found, held.best).mean() < 0.05 * held.best.var()


def test_they_are_listed_in_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = cli("zoo")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    for name in NAMES:
        scores = zoo.load(name).scores["by supports"].values()
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line.split()[-len(scores) :] == [f"{score['excess']:.4f}" for score in scores]


@pytest.mark.parametrize("name", NAMES)
def test_the_documents_give_its_scores(models, name):
    scores = models[name].scores
    rows = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{name}` |")]
    for row, part in zip(rows, ("by supports", "by part"), strict=False):
        assert [f"{score['excess']:.4f}" for score in scores[part].values()] == [
            cell.strip() for cell in row.split("|")[-len(scores[part]) - 1 : -1]
        ]
    assert len(rows) == 1 + ("by part" in scores)


def test_a_missing_file_is_an_error(tmp_path, monkeypatch):
    shutil.copytree(zoo.path_of("linear-attention"), tmp_path / "linear-attention")
    (tmp_path / "linear-attention/model.safetensors").unlink()
    monkeypatch.setattr(zoo, "MODELS", tmp_path)
    refused(
        cli("zoo", "rebuild", "linear-attention", "--out", tmp_path / "run"), "model.safetensors"
    )
    assert not (tmp_path / "run").exists()
