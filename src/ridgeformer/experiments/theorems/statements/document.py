"""Writes docs/theorems.md: `python -m ridgeformer.experiments.theorems.statements.document`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import ridgeformer
from ridgeformer.experiments.theorems import THEOREMS
from ridgeformer.experiments.theorems.coverage import coverage
from ridgeformer.experiments.theorems.statements import ORDER, Statement, numbered, statement
from ridgeformer.experiments.theorems.statements.references import REFERENCES

ROOT = Path(ridgeformer.__file__).parents[2]
"""The repository: the document is written in a checkout, where the tests are too."""

OPENING = r"""# Theorems

Written by `make docs` from the files in
[statements](../src/ridgeformer/experiments/theorems/statements); a test compares the two. Every theorem has a complete proof,
functions that compute its bounds, tests that measure it on random prompts of several kernels and spectra and where it is met,
and a figure: `ridgeformer verify` measures every theorem on compiled models and on the numerics, and draws it.

The notation is that of [notation.md](notation.md). Throughout $\lambda > 0$, $K \succeq 0$ is $k \times k$ with
eigenvalues $\sigma_1 \ge \dots \ge \sigma_k$, $A = K + \lambda I$, $\alpha^\ast = A^{-1}y$, $f^\ast(x) = k(x)^\top \alpha^\ast$, and
$\Vert v\Vert_A = \sqrt{v^\top A v}$. $\Vert \cdot\Vert$ is the Euclidean norm of a vector and the spectral norm of a matrix. Where $k(x, x)$
occurs, the kernel matrix of the supports and the query is positive semi-definite. Statements are about exact arithmetic, but for
those on round-off. With several outputs each holds for every column of $y$.
"""


def document() -> str:
    """docs/theorems.md"""
    tests = places_of_tests()
    sections = [section(statement(name), tests) for name in ORDER]
    literature = "\n".join(f"- {entry}" for entry in REFERENCES.values())
    table = ["## What covers which construction", "", numbered(coverage()), ""]
    return "\n".join([OPENING, *sections, *table, "## References", "", literature, ""])


def section(theorem: Statement, tests: dict[str, str]) -> str:
    measured = [name for name, entry in THEOREMS.items() if theorem.name in entry.states]
    parts = {
        "Statement": theorem.text,
        "Proof": theorem.proof,
        "Tightness": theorem.tightness,
        "Remark": theorem.remark,
        "References": " ".join(theorem.references),
        "Code": grouped({f"`{qualified(f)}`": source_of(f) for f in theorem.functions}),
        "Tests": grouped({f"`{name}`": tests[name] for name in theorem.tests}),
        "Figure": ", ".join(f"`{name}`" for name in measured)
        + " in the report of `ridgeformer verify`.",
    }
    text = "\n\n".join(f"**{name}.** {part}" for name, part in parts.items() if part)
    return f"## {theorem.number}. {theorem.title}\n\n{numbered(text)}\n"


def grouped(places: dict[str, str]) -> str:
    """Names with a link to the file that each is in, one link a file."""
    files: dict[str, list[str]] = {}
    for name, file in places.items():
        files.setdefault(file, []).append(name)
    return ", ".join(f"{', '.join(n)} in [{Path(f).name}](../{f})" for f, n in files.items()) + "."


def qualified(function: Callable[..., object]) -> str:
    room = ".".join(function.__module__.split(".")[:2])
    return f"{room}.{function.__name__}"


def source_of(function: Callable[..., object]) -> str:
    return Path(inspect.getfile(function)).relative_to(ROOT).as_posix()


def places_of_tests() -> dict[str, str]:
    """The file of each test."""
    return {
        name: path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^ *def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M)
    }


if __name__ == "__main__":
    (ROOT / "docs/theorems.md").write_text(document(), encoding="utf-8")
