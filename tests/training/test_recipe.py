"""Recipes: mistakes are refused, those of the package are valid, and curricula grow as they say."""

from dataclasses import replace

import pytest
import torch
from tiny_recipe import recipe_file

from ridgeformer.training import Recipe, recipes
from ridgeformer.training.loop import batch_at
from ridgeformer.training.recipe import Curriculum
from ridgeformer.types import Refusal


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[task]\n", "[taks]\n", "does not know 'taks'"),
        ('name = "linear"', 'name = "cubic"', "no learnable task 'cubic'"),
        ('name = "linear"', 'name = "sparce"', "did you mean sparse"),
        ('name = "linear"\n', "", "lacks 'name'"),
        ("features = 3", "features = 3.5", "must be a whole number"),
        ("features = 3", "featurs = 3", "does not know 'featurs'"),
        ("batch = 8", "batch = 0", "batch must be at least 1"),
        ("n_heads = 2", "n_heads = 0", "n_heads must be at least 1"),
        ("rate = 0.01", 'rate = "high"', "rate must be a number"),
        ("rate = 0.01", "rate = -1", "rate > 0"),
        ("checkpoint_every = 10", "checkpoint_every = 15", "multiple of evaluate_every"),
        ("warmup = 5", "warmup = 5000", "warmup must be between"),
        (
            'layout = "pairs"',
            'layout = "triples"',
            "must be one of pairs, interleaved, alternating",
        ),
        ('layout = "pairs"', 'layout = "alternating"\nmask = "context"', "has a causal mask"),
        ('layout = "pairs"', 'positions = "learned"', "positions must be none"),
        (
            'layout = "pairs"',
            'layout = "alternating"\npositions = "learned"',
            "come next after the supports: .* must be none",
        ),
        ('layout = "pairs"', 'positions = "relative"', "must be one of usual, none"),
        ("batch = 8", "batch = 8\nbeta1 = 1.0", "0 ≤ beta1 < 1"),
        ("batch = 8", "batch = 8\nauxiliary = -1", "auxiliary ≥ 0"),
        ("batch = 8", "batch = 8\nauxiliary = inf\nauxiliary_layers = [1]", "both finite"),
        ("batch = 8", "batch = 8\nauxiliary_ridge = 0", "auxiliary_ridge ≥ 1e-09"),
        ("batch = 8", "batch = 8\nauxiliary = 1", "needs auxiliary_layers"),
        ("batch = 8", "batch = 8\nauxiliary = 1\nauxiliary_layers = [0]", "from 1 to .* 2 layers"),
        ("batch = 8", "batch = 8\nauxiliary = 1\nauxiliary_layers = [3]", "from 1 to .* 2 layers"),
        ("batch = 8", "batch = 8\nauxiliary = 1\nauxiliary_layers = [1, 1]", "different numbers"),
        (
            "batch = 8",
            "batch = 8\nauxiliary = 1\nauxiliary_layers = 1",
            "must be a list of numbers",
        ),
        (
            "[training]",
            "[curriculum]\nfirst_features = 4\n[training]",
            "at most the task's 3 features",
        ),
        (
            "[training]",
            "[curriculum]\nfirst_points = 4\n[training]",
            "more than the task's queries",
        ),
        (
            "[training]",
            "[curriculum]\nfirst_points = 11\n[training]",
            "supports and queries together",
        ),
        (
            "[training]",
            "[curriculum]\nevery = 0\n[training]",
            "every, more_features and more_points",
        ),
        ("[training]", "[curriculum]\nspeed = 2\n[training]", "does not know 'speed'"),
        (
            "queries = 4",
            "queries = 4\nspectrum = [1, 1, 1]\n[curriculum]\nfirst_features = 2",
            "spectrum value for each",
        ),
        ("seed = 3", "seed = -1", "seed must be a whole number"),
        ("[model]", "[model", "cannot be read as a TOML recipe"),
    ],
)
def test_a_recipe_with_a_mistake_is_refused(tmp_path, old, new, message):
    path = recipe_file(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(Refusal, match=message):
        Recipe.load(path)


@pytest.mark.parametrize("layout", ["interleaved", "alternating"])
def test_only_pairs_can_be_cotrained(tmp_path, layout):
    path = recipe_file(tmp_path, layout=layout)
    path.write_text(path.read_text() + "auxiliary = 1\nauxiliary_layers = [1]\n")
    with pytest.raises(Refusal, match=f"use the layout pairs.* got the layout {layout}"):
        Recipe.load(path)


def test_shipped_recipes_are_valid():
    files = recipes.files()
    assert sorted(files.values()) == sorted(recipes.FOLDER.rglob("*.toml"))
    assert {"published"} < {path.parent.name for path in files.values()}
    for name, path in files.items():
        recipe = recipes.load(name)
        assert Recipe.from_dict(recipe.to_dict()) == recipe == Recipe.load(path)
        assert recipe.name == name


def test_a_file_comes_before_the_shipped_recipe_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert recipes.load("gp").name == "gp"
    (tmp_path / "gp").mkdir()  # such as the folder of a run
    assert recipes.load("gp").name == "gp"
    (tmp_path / "gp").rmdir()
    recipe_file(tmp_path).rename("gp")
    assert recipes.load("gp").name == "tiny"


@pytest.mark.parametrize("named", ["gpp", "recipes/gp.toml", "gp.toml"])
def test_a_recipe_that_is_nowhere(named):
    with pytest.raises(
        Refusal, match=rf"no recipe at {named}: .* shipped, of cotrained, .* gp, .* ahn,"
    ):
        recipes.load(named)


def test_the_control_of_cotraining_differs_in_nothing_else():
    cotrained, control = map(recipes.load, ("cotrained", "cotrained-control"))
    assert cotrained.training.auxiliary > 0
    without = {"auxiliary": 0.0, "auxiliary_layers": ()}
    training = replace(cotrained.training, **without)
    assert replace(cotrained, name=control.name, training=training) == control


CURRICULUM = """
[curriculum]
first_features = 1
more_features = 1
first_points = 6
more_points = 3
every = 10
"""


def test_a_curriculum_begins_with_few_features_and_points_and_ends_with_all(tmp_path):
    path = recipe_file(tmp_path)
    path.write_text(path.read_text() + CURRICULUM)
    recipe = Recipe.load(path)
    recipe = replace(recipe, training=replace(recipe.training, fewer_supports=0.0))
    seen = {}
    for step in (0, 9, 10, 20, 50):
        prompt = batch_at(step, recipe).prompt
        used = int((prompt.phi.abs().amax((0, 1)) > 0).sum())
        assert bool((prompt.phi_query[..., used:] == 0).all())
        assert bool((prompt.phi_query[..., :used] != 0).all())
        seen[step] = used, prompt.supports
    # Four queries are among the points: 6, 9 and then all 10 of them.
    assert seen == {0: (1, 2), 9: (1, 2), 10: (2, 5), 20: (3, 6), 50: (3, 6)}
    plain = replace(recipe, curriculum=Curriculum())
    assert torch.equal(batch_at(50, plain).targets, batch_at(50, recipe).targets)
