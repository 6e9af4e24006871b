"""Pieces of an experiment that are kept on disk, so that one that was interrupted goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ridgeformer.experiments.jobs import Result, Store, going_on
from ridgeformer.experiments.plain import from_plain, to_plain

Keep = Callable[[str, Callable[[], Any]], Any]
"""Returns the piece of that name, which it may know already; otherwise it is found by the call."""


def at_once(name: str, find: Callable[[], Any]) -> Any:
    """Finds the piece, and keeps nothing."""
    return find()


@dataclass(frozen=True)
class Piece:
    """A piece of one experiment, as a task of its own."""

    name: str
    of: Mapping[str, Any]
    """All that the experiment depends on, and which it is."""
    find: Callable[[], Any]

    def describe(self) -> dict[str, Any]:
        return {"piece": self.name, **self.of}

    def run(self) -> Result:
        return {"found": to_plain(self.find())}


@contextmanager
def kept_in(store: Store, of: Mapping[str, Any]) -> Iterator[Keep]:
    """Keeps every piece in a store as soon as it is there."""

    def keep(name: str, find: Callable[[], Any]) -> Any:
        piece = Piece(name, of, find)
        result = store.find(piece)
        if result is None:
            store.put(piece, piece.run())
            result = store.get(piece)
        return from_plain(result["found"])

    with going_on(store):
        yield keep
