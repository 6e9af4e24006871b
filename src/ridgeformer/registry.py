"""Registries: the members of one kind by name, ours and the user's alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from ridgeformer.types import Refusal

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Members of one kind, found by the `name` that each carries."""

    def __init__(self, kind: str, members: Iterable[T] = ()) -> None:
        self.kind = kind
        self.members: dict[str, T] = {}
        for member in members:
            self.add(member)

    def add(self, member: T) -> T:
        """Adds a member; a name that another member has is refused."""
        name = getattr(member, "name", None)
        if not isinstance(name, str) or not name:
            raise Refusal(f"A {self.kind} needs a `name` to be registered: {member!r} has none.")
        known = self.members.get(name)
        # A script that is run twice by one interpreter defines its class twice.
        if known is not None and identity(known) != identity(member):
            raise Refusal(f"There is a {self.kind} {name!r} already: choose another name.")
        if missing := sorted(getattr(member, "__abstractmethods__", ())):
            raise Refusal(f"{member!r} cannot be registered: it has no {', '.join(missing)}.")
        self.members[name] = member
        return member

    def find(self, name: str) -> T:
        """The member of that name; an unknown one is refused, with the nearest that exists."""
        if name in self.members:
            return self.members[name]
        near = get_close_matches(name, self.members, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(self.members)}."
        raise Refusal(f"There is no {self.kind} {name!r}: {hint}")

    def registered(self, member: T) -> T:
        """The member, if a process elsewhere finds it by its name; one that is not registered is refused."""
        name = getattr(member, "name", None)
        if self.members.get(str(name)) is not member:
            raise Refusal(
                f"Workers find a {self.kind} by its name, and {name!r} is not registered: hand it to "
                "`register`, in a file that they import."
            )
        return member

    def __getitem__(self, name: str) -> T:
        return self.members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


def identity(member: Any) -> tuple[str, str]:
    kind = member if isinstance(member, type) else type(member)
    return kind.__module__, kind.__qualname__


def register(member: T) -> T:
    """Adds a solver, kernel, task, baseline, study, theorem, exporter, importer or language task to its registry.

    From then on it is found by its name like those of this package. Usable as a decorator.
    """
    registry = getattr(member, "registry", None)
    if not isinstance(registry, Registry):
        raise Refusal(
            f"{member!r} cannot be registered: derive it from Solver, Kernel, Task, Baseline, Study, "
            "Theorem, Exporter, Importer or LanguageTask."
        )
    registry.add(member)
    return member
