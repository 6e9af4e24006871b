"""Pieces of an identification that are kept on disk, so that one that was interrupted goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ridgeformer.experiments.jobs import Result, Store
from ridgeformer.experiments.plain import from_plain, to_plain

Keep = Callable[[str, Callable[[], Any]], Any]
"""Returns the piece of that name, which it may know already; otherwise it is found by the call."""


def at_once(name: str, find: Callable[[], Any]) -> Any:
    """Finds the piece, and keeps nothing."""
    return find()


@dataclass(frozen=True)
class Piece:
    """A piece of one identification, as a task of its own."""

    name: str
    of: Mapping[str, Any]
    """All that the identification depends on."""
    find: Callable[[], Any]

    def describe(self) -> dict[str, Any]:
        return {"identify": self.name, **self.of}

    def run(self) -> Result:
        return {"found": to_plain(self.find())}


@contextmanager
def kept_in(store: Store, of: Mapping[str, Any]) -> Iterator[Keep]:
    """Keeps every piece in a store as soon as it is there, and says so where the work is interrupted."""

    def keep(name: str, find: Callable[[], Any]) -> Any:
        piece = Piece(name, of, find)
        result = store.find(piece)
        if result is None:
            store.put(piece, piece.run())
            result = store.get(piece)
        return from_plain(result["found"])

    try:
        yield keep
    except KeyboardInterrupt:
        store.say(
            f"Interrupted: what was found is kept in {store.directory}; the same command goes on from there."
        )
        raise
