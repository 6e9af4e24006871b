"""The explorer, which is one page of its own beside those of Sphinx."""

from pathlib import Path

from ridgeformer.experiments.explorer import build


def write_explorer(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(build.page(), encoding="utf-8")
