"""Recipes that are shipped with the package: those of the shipped models, and in `published` the settings of papers."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.training.recipe import Recipe
from ridgeformer.types import Refusal

FOLDER = Path(__file__).parent
"""A recipe that is shipped has the name of its file in here."""


def files() -> dict[str, Path]:
    """The files by the names of their recipes; those of papers come last."""
    own, published = (
        sorted(place.glob("*.toml"), key=lambda path: path.stem)
        for place in (FOLDER, FOLDER / "published")
    )
    return {path.stem: path for path in [*own, *published]}


def load(named: str | Path) -> Recipe:
    """The recipe of a file or, where there is no such file, the one that is shipped by that name."""
    shipped = files()
    if not Path(named).is_file() and str(named) in shipped:
        return Recipe.load(shipped[str(named)])
    if not Path(named).exists():
        raise Refusal(
            f"There is no recipe at {named}: give a file in TOML, or a recipe that is shipped, of "
            f"{', '.join(shipped)}."
        )
    return Recipe.load(named)
