"""MathJax, from the package that brings it, so that formulas are drawn without a network."""

import shutil
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "sphinx-mathjax-offline"
PARTS = ("tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions", "ui/lazy.js")
"""What reads TeX and draws it with its own fonts, where it comes into view. The package has all of MathJax, ten times as much."""


def write_mathjax(folder: Path) -> None:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The package {PACKAGE} is missing: `pip install -e .[docs]` brings it.")
    home = Path(spec.origin).parent / "static" / "mathjax"
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        if (home / part).is_dir():
            shutil.copytree(home / part, folder / part)
        else:
            shutil.copy(home / part, folder / part)
