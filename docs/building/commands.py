"""A page for every command of `ridgeformer`, made from the commands themselves."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, wrap
from typing import Any

import typer
from docs.building.paths import ROOT
from typer.core import TyperArgument

from ridgeformer.cli.app import app

INTRODUCTION = """# Commands

Every command prints what is below with `--help`. `ridgeformer --import FILE.py COMMAND …` runs a Python file first, which
registers solvers, kernels, tasks or other members of your own; `ridgeformer --version` says which version is installed.
A request that cannot be met is refused in one sentence, with the remedy, and the exit code 2.

"""

EXAMPLES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("how-to/*.md")), *sorted((ROOT / "docs").glob("*.md"))]  # fmt: skip
"""The documents whose commands are shown as examples, the first of them first."""


def commands() -> dict[str, Any]:
    """Every command and sub-command by the words that call it, with the options of what is registered."""
    group: Any = typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():
        found[name] = group.complete(name, command)
        for below, part in getattr(command, "commands", {}).items():
            found[f"{name} {below}"] = part
    return found


def page_name(words: str) -> str:
    return words.replace(" ", "-")


def write_commands(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = commands()
    for words, command in found.items():
        text = page(words, command, found)
        (folder / f"{page_name(words)}.md").write_text(text, encoding="utf-8")
    rows = [
        f"| [`ridgeformer {words}`]({page_name(words)}.md) | {plain(command.help).splitlines()[0]} |"
        for words, command in found.items()
    ]
    table = "\n".join(["| command | what it does |", "|---|---|", *rows])
    (folder / "index.md").write_text(f"{INTRODUCTION}{table}\n", encoding="utf-8")


def page(words: str, command: Any, found: dict[str, Any]) -> str:
    """What it does, how it is called, its options, and lines of the documents that use it."""
    context = command.make_context(f"ridgeformer {words}", ["--help"], resilient_parsing=True)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    up = "---\norphan: true\n---\n\n[Commands](index.md)"
    parts = [up, f"# ridgeformer {words}", described(command.help), f"```text\n{usage}\n```"]
    below = [other for other in found if other.startswith(f"{words} ")]
    if below:
        rows = [f"| [`ridgeformer {o}`]({page_name(o)}.md) | {plain(found[o].help).splitlines()[0]} |" for o in below]  # fmt: skip
        parts.append("\n".join(["| command | what it does |", "|---|---|", *rows]))
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if not parameter.hidden:
            usual = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
            panels.setdefault(parameter.rich_help_panel or usual, []).append(parameter)
    for title, parameters in panels.items():
        rows = [row(parameter, context) for parameter in parameters]
        parts.append(f"## {title}\n\n" + "\n".join(rows))
    if lines := uses(words, found):
        parts.append("## Examples\n\n```sh\n" + "\n".join(lines) + "\n```")
    return "\n\n".join(parts) + "\n"


def row(parameter: Any, context: Any) -> str:
    """An option as an entry of a definition list: how it is written, then what it means."""
    written, text = parameter.get_help_record(context) or (parameter.metavar, parameter.help)
    if isinstance(parameter, TyperArgument):
        written = parameter.metavar or parameter.name.upper()
    return f"`{written}`\n: {plain(text).strip() or 'no more is said of it.'}\n"


def plain(text: str) -> str:
    """The text of a help, in which brackets are escaped for rich, as Markdown."""
    text = text.replace("\\[", "[")
    text = re.sub(r"([*_|<\[\]])", r"\\\1", text)
    return re.sub(r"(?<![\w`])(--[a-z][\w-]*)", r"`\1`", text)


def described(text: str) -> str:
    """The paragraphs of a command's help; lines that show how it is called become commands."""
    return "\n\n".join(map(paragraph, text.replace("\\[", "[").split("\n\n")))


def paragraph(text: str) -> str:
    shown = re.match(r"([\w ,]+): +((?:compile|ridgeformer|torchrun) .*)", text, re.S)
    if not shown:
        return plain(text)
    words = " ".join(shown[2].split())
    command = f"ridgeformer {words}" if words.startswith("compile") else words
    lines = wrap(command, 84, break_on_hyphens=False)
    return f"{shown[1]}:\n\n```sh\n" + " \\\n    ".join(lines) + "\n```"


def uses(words: str, found: dict[str, Any]) -> list[str]:
    """The lines of the README that call the command, or else of the first document that does.

    Those of its sub-commands are on their own pages.
    """
    below = tuple(f"ridgeformer {other}" for other in found if other.startswith(f"{words} "))
    for path in EXAMPLES:
        lines = [
            line
            for line in shown_commands(path.read_text("utf-8"))
            if re.match(rf"ridgeformer {re.escape(words)}(\s|$)", line)
            and not (below and line.startswith(below))
        ]
        if lines:
            return lines
    return []


def shown_commands(text: str) -> list[str]:
    """The commands in a document's blocks of code, fenced or indented, each with the lines on which it goes on."""
    fenced = re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.S | re.M)
    indented = [dedent(block) for block in re.findall(r"(?:^ {4}.*\n)+", text, re.M)]
    lines = [line for block in fenced + indented for line in re.split(r"(?<!\\)\n", block)]
    return [re.sub(r" {2,}#", "  #", line) for line in lines]
