"""A page for every class and function of the package, and one for each of its rooms with all other names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path

from docs.building.public import ROOMS, Public, own_docstring, public_names

import ridgeformer

TITLES = {
    "baselines": "Baselines", "compiler": "Compiling", "experiments": "Experiments", "export": "Export",
    "kernels": "Kernels", "models": "Models", "program": "Programs", "registry": "Members of your own",
    "solvers": "Solvers", "tasks": "Tasks and prompts", "training": "Training", "transformer": "The transformer",
    "types": "Vocabulary",
}  # fmt: skip
INTRODUCTION = """# Reference

What `import ridgeformer as rf` offers, by subject. The [rooms](rooms.md) of the package offer more.

"""
ROOMS_INTRODUCTION = """# Rooms

The package is divided into rooms, each with a door from which its names are imported.

"""

ORPHAN = "---\norphan: true\n---\n\n"
"""Hundreds of pages in the navigation of every page would hide it, and take minutes to write."""


def write_names(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text(index(), encoding="utf-8")
    (folder / "rooms.md").write_text(rooms(), encoding="utf-8")
    for room, title in ROOMS.items():
        (folder / f"ridgeformer.{room}.md").write_text(room_page(room, title), encoding="utf-8")
    for public in public_names():
        if public.has_page:
            (folder / f"{public.page}.md").write_text(page(public), encoding="utf-8")


def page(public: Public) -> str:
    kind = public.kind
    if kind == "class" and issubclass(public.value, Warning | Exception):
        kind = "exception"
    up = "[Reference](index.md)"
    if public.home != "ridgeformer":
        up += f" › [{public.home}]({public.home}.md)"
    shown = f"rf.{public.name}" if public.home == "ridgeformer" else public.name
    directive = f".. auto{kind}:: {public.home}::{public.name}"
    if public.home == "ridgeformer.sklearn":  # what they do is what estimators do
        directive += "\n   :inherited-members: BaseEstimator, RegressorMixin"
    return f"{ORPHAN}{up}\n\n# {shown}\n\n```{{eval-rst}}\n{directive}\n```\n"


def row(public: Public) -> str:
    shown = f"rf.{public.name}" if public.home == "ridgeformer" else public.name
    return f"| [`{shown}`]({public.page}.md) | {first_line(public)} |"


def table(names: Iterable[Public]) -> str:
    return "\n".join(["| name | |", "|---|---|", *map(row, names)])


def first_line(public: Public) -> str:
    lines = own_docstring(public.value).split("\n\n")[0].splitlines()
    return " ".join(lines).replace("|", "\\|").replace("*", "\\*")


def subjects() -> dict[str, list[str]]:
    """The names of the package by the room that they come from, as __init__.pyi lists them."""
    stub = Path(ridgeformer.__file__).with_name("__init__.pyi")
    return {
        str(line.module).removeprefix("ridgeformer."): [name.name for name in line.names]
        for line in ast.parse(stub.read_text("utf-8")).body
        if isinstance(line, ast.ImportFrom)
    }


def index() -> str:
    own = {public.name: public for public in public_names() if public.home == "ridgeformer"}
    parts = []
    for room, names in subjects().items():
        listed = [own[name] for name in sorted(names, key=str.lower)]
        parts.append(f"## {TITLES[room]}\n\n{table(listed)}")
    return INTRODUCTION + "\n\n".join(parts) + "\n\n```{toctree}\n:hidden:\n\nrooms\n```\n"


def rooms() -> str:
    rows = [f"| [`ridgeformer.{room}`](ridgeformer.{room}.md) | {title} |" for room, title in ROOMS.items()]  # fmt: skip
    listed = "\n".join(["| room | |", "|---|---|", *rows])
    return f"{ROOMS_INTRODUCTION}{listed}\n"


def room_page(room: str, title: str) -> str:
    """Every name of a room with its signature and what it says of itself."""
    home = f"ridgeformer.{room}"
    own = [public for public in public_names() if public.home == home]
    known = ", ".join(
        f"[`rf.{public.name}`]({public.page}.md)"
        for public in public_names()
        if public.home == "ridgeformer" and public.name in subjects().get(room, ())
    )
    parts = [f"{ORPHAN}[Reference](index.md) › [Rooms](rooms.md)", f"# {title}"]
    if own:
        parts.append(f"`from {home} import …` offers these.")
    if known:
        parts.append(f"Of this room, the package itself offers {known}.")
    if own and own[0].has_page:
        return "\n\n".join([*parts, table(own)]) + "\n"
    return "\n\n".join([*parts, *map(entry, own)]) + "\n"


def entry(public: Public) -> str:
    """A heading that links find, how it is called, and its docstring."""
    said = documented(public.value)
    return "\n\n".join(
        [
            f"({public.unmistakable})=\n## {public.name}",
            f"```python\n{signature(public)}\n```",
            said,
        ]
    )


def signature(public: Public) -> str:
    kind = "class " if inspect.isclass(public.value) else ""
    try:
        found = inspect.signature(public.value)
    except ValueError:  # exceptions have none
        return f"{kind}{public.name}"
    shown = str(found).replace("'", "")
    if len(shown) > 80 and found.parameters:
        inside = ",\n".join(f"    {parameter}" for parameter in found.parameters.values())
        returned = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"  # fmt: skip
        shown = f"(\n{inside},\n){returned}".replace("'", "")
    return f"{kind}{public.name}{shown}"


def documented(value: type) -> str:
    """The docstring as Markdown, with a list of what it says of parameters."""
    listed = re.sub(r"^(\w+) {2,}", r"- `\1`: ", own_docstring(value), flags=re.M)
    return re.sub(r"([*<])", r"\\\1", listed)
