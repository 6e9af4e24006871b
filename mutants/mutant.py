"""`Mutant`: one error, as a text of a source file and what takes its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "src/ridgeformer"


class Unfit(Exception):
    """A mutant that cannot be planted, or a run that would say nothing."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    """The source file, below the package."""
    old: str
    """A text that occurs exactly once in the file."""
    new: str
    breaks: str
    """What is wrong with it, in one sentence."""
    statements: tuple[str, ...] = ()
    """The statements of `verify --fast` that should notice, the likeliest first."""
    tests: tuple[str, ...] = ()
    """The tests that should notice, as files or as pytest's names of tests."""
    more: tuple[tuple[str, str], ...] = ()
    """Further texts of the same file, and what takes their places, where one would not be a whole error."""
    survives: str = ""
    """Why nothing notices, where that is known and accepted."""

    @property
    def room(self) -> str:
        return Path(self.file).parts[0].removesuffix(".py")

    def planted(self, text: str) -> str:
        """The text of the file with the error in it."""
        for old, new in ((self.old, self.new), *self.more):
            found = text.count(old)
            if found != 1:
                raise Unfit(f"{self.name}: {old!r} occurs {found} times in {self.file}, not once.")
            if old == new:
                raise Unfit(f"{self.name}: it changes nothing.")
            text = text.replace(old, new)
        return text

    def fingerprint(self) -> str:
        words = (
            self.name,
            self.file,
            self.old,
            self.new,
            *sum(self.more, ()),
            *self.statements,
            "",
            *self.tests,
        )
        return hashlib.sha256("\0".join(words).encode()).hexdigest()

    @contextmanager
    def within(self, root: Path) -> Iterator[None]:
        """Plants the error in the copy at `root`, and takes it out again."""
        path = root / PACKAGE / self.file
        text = path.read_text()
        write(path, self.planted(text))
        try:
            yield
        finally:
            write(path, text)


def write(path: Path, text: str) -> None:
    """Python tells compiled files apart by size and second alone, so those of the old text are deleted."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
