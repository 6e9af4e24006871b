"""Models trained for a second, and one compiled for the same task."""

import os

from typer.testing import CliRunner

from conftest import without_checks
from ridgeformer.cli import app
from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.solvers import ConjugateGradient
from ridgeformer.tasks import LinearRegression
from ridgeformer.training import Group, Recipe, TrainedModel, started

LINEAR = {"name": "linear", "features": 2, "supports": 8, "queries": 4}
PROCESS = {"name": "gp", "features": 1, "supports": 6, "queries": 3}
SHAPE = {"n_layers": 2, "d_model": 16, "n_heads": 2, "d_head": 8, "d_mlp": 32}


def cli(*arguments, cwd=None):
    """The command line in this process, which saves the time of starting another."""
    before = os.getcwd()
    os.chdir(cwd or before)
    try:
        with without_checks():
            return CliRunner().invoke(app, [str(a) for a in arguments])
    finally:
        os.chdir(before)


def refused(result, *words):
    """Exit 2 and one sentence."""
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in " ".join(result.stderr.split()), result.stderr


def recipe_of(layout, task, steps=60):
    schedule = {"steps": steps, "batch": 16, "warmup": 5, "rate": 3e-3}
    return Recipe.from_dict(
        {
            "name": f"tiny-{layout}",
            "task": task,
            "model": {"layout": layout, **SHAPE},
            "training": {**schedule, "evaluate_every": steps, "checkpoint_every": steps},
        }
    )


def train(folder, layout, task):
    recipe = recipe_of(layout, task)
    run = started(recipe, folder / "run", False, lambda _: None, Group())
    run.train(lambda step, seen: None)
    model = TrainedModel(run.model, recipe, {"steps": run.step, "by supports": {"4": {"mse": 0.5}}})
    model.save(folder / layout)
    return folder / layout


def compile_cg(directory, ridge=None):
    """CG with the task's own ridge unless told otherwise, in as many steps as K + λI has distinct
    eigenvalues: those of ΦᵀΦ + λI, and λ."""
    task = LinearRegression(features=LINEAR["features"])
    model = compile(
        ConjugateGradient(),
        features=task.features,
        steps=task.features + 1,
        ridge=task.ridge if ridge is None else ridge,
        to=LinearAttention(1e4),
    )
    model.save(directory)
    return directory
