"""Programs to schedules: what every backend shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from ridgeformer.compiler.schedule import Cell, Place, Schedule
from ridgeformer.program.ops import Channel, Op, Program


@dataclass
class Site:
    """Where an iterate is read: the cell that holds it, right after it was written."""

    step: int
    name: str
    cell: Cell
    over: Cell | None = None
    """What the cell is still to be divided by, if anything."""


@dataclass
class Lowering(ABC):
    """Walks through a program; a backend says how each operation becomes heads and neurons."""

    outputs: int
    features: int
    place: Place = "data"
    """Where the inputs live."""
    s: Schedule = field(default_factory=Schedule)
    sites: list[Site] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.phi = self.s.new("φ", self.place, self.features, -1)
        self.phi.keep = True
        self.raw = self.phi
        """The features as they come in; φ itself unless layers below the solver change them."""
        self.y = self.s.new("y", self.place, self.outputs, -1)

    def build_on(self, features: Cell) -> None:
        """Lets the solver read other features than those that came in."""
        self.phi, self.features = features, features.width

    @abstractmethod
    def perform(self, op: Op) -> None:
        """Lowers one operation."""

    @abstractmethod
    def keep(self, channel: Channel, step: int, name: str) -> None:
        """Stores a state variable, and reads predictions off each iterate."""

    def run(self, program: Program) -> None:
        boundaries: dict[Channel, dict[Channel, tuple[int, str]]] = {}
        seen: set[Channel] = set()
        for step, state in enumerate(program.states):
            new = {c: (step, n) for n, c in reversed(list(state.items())) if c and c not in seen}
            seen.update(new)
            if new:
                boundaries[max(new, key=lambda c: c.index)] = new
        for op in program.ops:
            self.perform(op)
            # Within a step the state is still an expression, so that its parts need not wait for
            # each other; at the end of the step it is stored.
            for channel, (step, name) in sorted(
                boundaries.get(op.out, {}).items(), key=lambda item: item[1][1] != "alpha"
            ):
                if channel.kind != "token":
                    self.keep(channel, step, name)
