"""`ridgeformer train` finds shipped recipes by name, and lists them."""

import json

from fork_server import cli, refused
from tiny_recipe import recipe_file

from ridgeformer.training import recipes


def test_without_a_recipe_it_lists_the_shipped_ones(tmp_path):
    done = cli("train", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(recipes.files())
    assert max(map(len, lines)) <= 80
    assert str(recipes.FOLDER) in last
    assert not list(tmp_path.iterdir())


def test_it_runs_in_a_folder_of_the_name_of_the_recipe(tmp_path):
    recipe_file(tmp_path, steps=10)
    done = cli("train", "recipe.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs/recipe/model/config.json").exists()
    refused(cli("train", "recipe.toml", cwd=tmp_path), "runs/recipe is not empty", "--resume")


def test_an_unknown_name(tmp_path):
    refused(cli("train", "gpp", cwd=tmp_path), "no recipe at gpp", "gp-causal")
    assert not (tmp_path / "runs").exists()


def test_a_shipped_recipe_is_a_task_for_other_commands(tmp_path):
    """Beside names of tasks, which come first."""
    done = cli(
        "evaluate", "linear-20", "--task", "linear-20", "--prompts", 8, "--baseline", "none",
        "--out", "page", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "linear-20" in json.dumps(json.loads((tmp_path / "page/results.json").read_text()))
    refused(cli("evaluate", "linear", "--task", "no-such", cwd=tmp_path), "no task 'no-such'")
