"""How every experiment runs: refuse early, measure, print tables, write numbers and page whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from ridgeformer.experiments.finding import Page, Table
from ridgeformer.experiments.timing import in_words
from ridgeformer.types import Refusal
from ridgeformer.whole import replaceable, write_whole

T = TypeVar("T")

WORTH_SAYING = 5.0
"""Seconds; what takes less is over before it is read."""


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
        with self.bars() as tracked:
            yield from tracked(cases, doing)

    @contextmanager
    def bars(self) -> Iterator[Callable[[Collection[Any], str], Iterable[Any]]]:
        """What tracks several loops, also one within another, under bars that vanish at the end."""
        with timed_bars(self.console) as progress:

            def tracked(cases: Collection[Any], doing: str) -> Iterable[Any]:
                # The bar of a single case has nowhere to move to, so it goes back and forth.
                if len(cases) > 1:
                    yield from progress.track(cases, description=doing)
                    return
                task = progress.add_task(doing, total=None)
                yield from cases
                progress.remove_task(task)

            yield tracked

    def say_how_long(self, seconds: float, what: str, shorter: str = "") -> None:
        """Says beforehand about how long it takes; what takes no time needs no words."""
        if seconds >= WORTH_SAYING:
            less = f" {shorter}" if shorter else ""
            said = f"{what} takes about {in_words(seconds)} at this machine's present speed.{less}"
            self.console.print(said, highlight=False)

    def show(self, tables: Mapping[str, Table]) -> None:
        for title, table in tables.items():
            self.console.print(terminal_table(title, table))

    def write(self, page: Page, values: Mapping[str, Any]) -> Path:
        """Writes the numbers and the page, says where they are, and returns the page's path."""
        from ridgeformer.experiments.page import render

        text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        html = render(page)  # before either file is touched
        for path, content in ((self.numbers, text), (self.path, html)):
            try:
                write_whole(path, content.encode())
            except OSError as error:
                raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from error
        self.console.print(f"The page: [bold]{self.path}[/bold]", soft_wrap=True)
        self.console.print(f"Its numbers: [bold]{self.numbers}[/bold]", soft_wrap=True)
        return self.path


def timed_bars(console: Console) -> Progress:
    """Progress bars that vanish, with the time that has passed and the time that is left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("so far,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        transient=True,
    )


def check_writable(path: Path) -> None:
    """Refuses a file that cannot be written, and leaves no trace but its directory."""
    try:
        path = replaceable(path)
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
