"""The model and the tasks that a command names: a saved or shipped model, tasks by name or by recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ridgeformer.compiler import CompiledModel
from ridgeformer.models import Model, load, zoo
from ridgeformer.tasks import LEARNABLE, LearnableTask
from ridgeformer.training import recipes
from ridgeformer.types import Refusal


def chosen_model(name: str | Path) -> Model:
    """The model of a directory; or, where no model is there, the shipped model of that name."""
    return load(directory_of(name))


def directory_of(name: str | Path) -> Path:
    """Where the files of a model are that is named by its directory, or as a shipped one."""
    shipped = not (Path(name) / "config.json").exists() and str(name) in zoo.names()
    return zoo.path_of(str(name)) if shipped else Path(name)


def fingerprint(name: str | Path) -> str:
    """A name for the content of a model's files."""
    content = b"".join(
        (directory_of(name) / file).read_bytes() for file in ("config.json", "model.safetensors")
    )
    return hashlib.sha256(content).hexdigest()


def described(model: Model, directory: str | Path) -> dict[str, Any]:
    """What the model is, and with how many supports it was trained."""
    name = Path(directory).absolute().name
    if isinstance(model, CompiledModel):
        c = model.certificate
        return {"model": f"{name}: compiled {c.solver}, {c.steps} steps", "trained supports": None}
    recipe = model.recipe
    return {
        "model": f"{name}: trained on {recipe.task.name}, {recipe.model.layout} layout, recipe {recipe.name}",
        "trained supports": model.layout.longest(recipe.task),
    }


def tasks_of(model: Model, names: Sequence[str]) -> dict[str, LearnableTask]:
    """The model's own task, or those that names and recipes give, by label."""
    if not names:
        if isinstance(model, CompiledModel):
            known = ", ".join(LEARNABLE)
            raise Refusal(
                f"A compiled model has no task of its own: give `tasks`, from {known}, or a recipe."
            )
        return {model.recipe.task.name: model.recipe.task}
    found: dict[str, LearnableTask] = {}
    for name in names:
        label, task = task_of(model, name)
        if label in found:
            raise Refusal(f"`tasks` has {label!r} twice: name each once.")
        found[label] = task
    return found


def task_of(model: Model, name: str) -> tuple[str, LearnableTask]:
    if name in LEARNABLE:
        if isinstance(model, CompiledModel):
            return name, LEARNABLE[name](features=model.certificate.features)
        own = model.recipe.task
        return name, own if own.name == name else LEARNABLE[name](features=own.features)
    if not name.endswith(".toml") and not Path(name).exists() and name not in recipes.files():
        known = ", ".join(LEARNABLE)
        raise Refusal(f"There is no task {name!r}: choose from {known}, or give a recipe.toml.")
    recipe = recipes.load(name)
    return recipe.name, recipe.task
