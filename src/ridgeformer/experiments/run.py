"""How every experiment runs: refuse early, measure, print tables, write numbers and page whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import wrap
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    track,
)
from rich.table import Table as RichTable

from ridgeformer.experiments.finding import Page, Table
from ridgeformer.types import Refusal
from ridgeformer.whole import write_whole

T = TypeVar("T")


class Run:
    """One run: where its page and numbers go, and how far it is.

    It refuses at once what cannot be written, before any measuring is done.
    """

    def __init__(self, out: str | Path, numbers: str, console: Console | None = None) -> None:
        self.console = console or Console()
        self.path, self.numbers = Path(out) / "index.html", Path(out) / numbers
        for path in (self.path, self.numbers):
            check_writable(path)

    def track(self, cases: Collection[T], doing: str = "measuring") -> Iterable[T]:
        """The cases, under a progress bar that vanishes."""
        return track(cases, doing, console=self.console, transient=True)

    @contextmanager
    def bars(self) -> Iterator[Callable[[Sequence[Any], str], Iterable[Any]]]:
        """What tracks several loops, also one within another, under bars that vanish at the end."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield lambda cases, doing: progress.track(cases, description=doing)

    def show(self, tables: Mapping[str, Table]) -> None:
        for title, table in tables.items():
            self.console.print(terminal_table(title, table))

    def write(self, page: Page, values: Mapping[str, Any]) -> Path:
        """Writes the numbers and the page, says where they are, and returns the page's path."""
        from ridgeformer.experiments.page import render

        text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        html = render(page)  # before either file is touched
        write_whole(self.numbers, text.encode())
        write_whole(self.path, html.encode())
        self.console.print(f"The page: [bold]{self.path}[/bold]", soft_wrap=True)
        self.console.print(f"Its numbers: [bold]{self.numbers}[/bold]", soft_wrap=True)
        return self.path


def check_writable(path: Path) -> None:
    """Refuses a file that cannot be written, and leaves no trace but its directory."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(None, "Is a directory")
        with TemporaryFile(dir=path.parent):  # It has no name that could be left behind.
            pass
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from error


def terminal_table(title: str, table: Table) -> RichTable:
    """Readable in 80 columns: words are folded, names in the first column are whole."""
    shown = RichTable(
        title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
        row_styles=["", "dim"],
    )  # fmt: skip
    for column, cell in enumerate(table.header):
        words = column < table.words
        shown.add_column(
            folded(cell), justify="left" if words else "right", overflow="fold", no_wrap=not column
        )  # fmt: skip
    for row in table.rows:
        shown.add_row(*row)
    return shown


def folded(cell: str) -> str:
    """A header that is no wider than its column needs; it may break before a slash."""
    return "\n".join(wrap(cell.replace("/", " /"), 10, break_long_words=False)).replace(" /", "/")


def check_seed(seed: int, below: int) -> None:
    """Refuses a seed that a generator does not take."""
    if not 0 <= seed < 2**below:
        raise Refusal(f"The seed must be at least 0 and below 2^{below}, got {seed}.")
