"""Docstrings as Sphinx reads them, and links from types to the pages of public names."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from docs.building.public import own_docstring, public_names
from docutils import nodes


def mend_docstring(
    app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]
) -> None:
    """Makes reStructuredText of the prose of a docstring, in place, and adds what fields say of themselves."""
    if inspect.isclass(found) and not own_docstring(found):
        lines[:] = []
    lines[:] = restructured(lines)
    if inspect.isclass(found) and is_dataclass(found):
        lines += helps(found)


def restructured(lines: list[str]) -> list[str]:
    """Backticks are code; bars, stars and underscores are those of mathematics.

    A line such as `steps   how often …`, and what is indented below it, says what a parameter is. Any other
    indented block is as it is.
    """
    out: list[str] = []
    for number, line in enumerate(lines):
        if found := re.match(r"(\w+) {2,}(\S.*)", line):
            out.append(f":param {found[1]}: {with_code(found[2])}")
            continue
        block = line.startswith((" ", "\t"))
        if block and out and (number == 0 or not lines[number - 1].strip()):
            out += ["::", ""] if not inside_block(lines, number) else []
        out.append(line if block and "::" in out else with_code(line))
    return out


def inside_block(lines: list[str], number: int) -> bool:
    """Whether the indented block has begun before."""
    earlier = [line for line in lines[:number] if line.strip()]
    return bool(earlier) and earlier[-1].startswith((" ", "\t"))


def with_code(line: str) -> str:
    parts = re.split(r"(`+[^`]+`+)", line)
    return "".join(
        f"``{part.strip('`')}``" if part.startswith("`") else re.sub(r"([*|_\\])", r"\\\1", part)
        for part in parts
    )


def helps(found: type) -> list[str]:
    """What the fields of a dataclass say of themselves for the command line."""
    said = [(f, f.metadata["help"]) for f in fields(found) if f.init and "help" in f.metadata]
    lines = [""] if said else []
    for field, text in said:
        given = field.default is not MISSING or field.default_factory is not MISSING
        lines.append(f":param {field.name}: {with_code(text)}{'' if given else ' Required.'}")
    return lines


def link_to_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A type that is public has a page, or a place on the page of its room, wherever it is defined.

    Types that are not public, or of other packages, have none. A name in prose that does not exist is a warning.
    """
    if node.get("refdomain") != "py":
        return None
    module, _, last = node["reftarget"].rpartition(".")
    public = next((public for public in public_names() if public.name == last), None)
    if public is None:
        return contnode if "refwarn" not in node or exists(module, last) else None
    here = node.get("refdoc") or env.docname
    target = app.builder.get_relative_uri(here, f"reference/{public.page}")
    return nodes.reference("", "", contnode, internal=True, refuri=f"{target}#{public.anchor}")


def exists(module: str, name: str) -> bool:
    return find_spec(module) is not None and hasattr(import_module(module), name)
