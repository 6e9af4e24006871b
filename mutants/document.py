"""docs/mutants.md: which statement or test caught each planted error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mutants.catchers import Caught
from mutants.mutant import Mutant

NEEDED = 0.95
"""The share of mutants that must be caught."""

HEAD = """# Planted errors, and what notices them

An error that no check notices may be there already. `make mutants` therefore plants {count} errors in a copy of the
sources, one at a time, and runs the statements of `ridgeformer verify --fast` and the tests that should notice; where
none of these does, it runs all statements and then all tests of that part of the library. An error that makes them
hang counts as noticed, and the table says so. This page is what it found.

| noticed by | errors |
|---|---|
| a statement of `verify --fast` | {statements} |
| a test | {tests} |
| nothing | {survivors} |
{missing}
Of all planted errors that were run {share} are noticed. A statement is said to be *VIOLATED* where a measured value exceeds its bound, and
*vacuous* where no measured value comes near it, so that bounds which are too large are noticed, too. The column tells what
noticed the error first; statements are asked before tests.
"""


def share_caught(caught: Mapping[str, Caught | None]) -> float:
    if not caught:
        return 0.0
    return sum(found is not None for found in caught.values()) / len(caught)


def document(mutants: Sequence[Mutant], caught: Mapping[str, Caught | None]) -> str:
    """The page; a mutant without an entry in `caught` has not been run."""
    by = [found.by if found else "" for found in caught.values()]
    missing = len(mutants) - len(caught)
    counts = {kind: by.count(kind) for kind in ("verify --fast", "tests", "")}
    parts = [
        HEAD.format(
            count=len(mutants),
            statements=counts["verify --fast"],
            tests=counts["tests"],
            survivors=counts[""],
            missing=f"| not run yet | {missing} |\n" if missing else "",
            share=f"{100 * share_caught(caught):.0f} %",
        )
    ]
    for room in sorted({m.room for m in mutants}):
        parts += ["", f"## {room}", "", "| error | what it breaks | noticed by |", "|---|---|---|"]
        parts += [
            f"| `{m.name}` | {cell(m.breaks)} | {noticed(caught[m.name]) if m.name in caught else 'not run yet'} |"
            for m in sorted(mutants, key=lambda m: m.name)
            if m.room == room
        ]
    survivors = sorted(
        (m for m in mutants if m.name in caught and caught[m.name] is None), key=lambda m: m.name
    )
    if survivors:
        parts += ["", "## What nothing notices, and why", ""]
        parts += [f"- `{m.name}`: {m.survives or 'not explained yet.'}" for m in survivors]
    return "\n".join(parts) + "\n"


def noticed(found: Caught | None) -> str:
    if found is None:
        return "**nothing**"
    how = f" ({found.how})" if found.how else ""
    if found.by == "tests":
        file, _, test = found.which.partition("::")
        return f"test `{file.removeprefix('tests/')}`" + (f" `{test}`" if test else "") + how
    return f"statement `{found.which}`" + how if found.which else f"`{found.by}`" + how


def cell(text: str) -> str:
    """Vertical bars would end the cell."""
    return text.replace("|", "\\|")
