"""From programs to circuits: what all lowerings share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from ridgeformer.compiler.backends.features import token_features
from ridgeformer.compiler.backends.looped import looped_circuit
from ridgeformer.compiler.circuit import START, Builder, Cell, Circuit, Place, Readout
from ridgeformer.kernels import FeatureMap
from ridgeformer.program import LoopedProgram
from ridgeformer.program.ops import Channel, Kind, Op, Program
from ridgeformer.types import Refusal


@dataclass
class Lowering(ABC):
    """Walks through a program; a subclass says how each operation becomes heads and neurons."""

    outputs: int
    features: int
    """The number of features that come in, after the projection."""
    feature_map: FeatureMap = field(default_factory=FeatureMap)
    place: Place = "data"
    """Where the inputs live."""
    s: Builder = field(default_factory=Builder)
    looped: bool = False
    """Whether what is lowered is one pass of a loop, which ends when its last value is there."""

    def __post_init__(self) -> None:
        self.raw = self.s.new("φ", self.place, self.features, START)
        self.s.kept.add(self.raw)
        self.y = self.s.new("y", self.place, self.outputs, START, variable="y")
        self.phi = token_features(self.s, self.raw, self.feature_map, self.place)
        """The features that the kernel multiplies: φ itself unless the kernel maps it."""
        self.features = self.phi.width

    @abstractmethod
    def perform(self, op: Op) -> None:
        """Lowers one operation."""

    @abstractmethod
    def keep(self, channel: Channel, step: int, variable: str) -> None:
        """Stores a state variable, and reads predictions off each iterate."""

    def cell(self, kind: Kind, name: str, written: int) -> Cell:
        """A cell for a value of that kind, which a loop carries."""
        raise no_loop()

    def adopt(self, channel: Channel, cell: Cell) -> None:
        """Reads the channel off a cell."""
        raise no_loop()

    def settle(self, channel: Channel, name: str) -> Cell:
        """The cell that holds the channel; it is stored if it is not yet."""
        raise no_loop()

    def fit(self, alpha: Cell, bound: tuple[float, float]) -> Cell:
        """The prediction at the queries from an iterate that is there."""
        raise no_loop()

    def known_range(self, channel: Channel) -> tuple[float, float]:
        """The range of a channel, where the lowering needs it."""
        return -inf, inf

    def silence(self) -> float:
        """The number that silences a neuron of a plain MLP at the tokens where it must not act."""
        return 1.0

    def circuit(self, program: Program) -> Circuit:
        if isinstance(program, LoopedProgram):
            return looped_circuit(self, program)
        self.run(program)
        self.s.readouts = complete(self.s.readouts, program)
        return self.s.circuit(self.raw, self.y, self.silence())

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
            for channel, (step, variable) in sorted(
                boundaries.get(op.out, {}).items(), key=lambda item: item[1][1] != "alpha"
            ):
                if channel.kind != "token":
                    self.keep(channel, step, variable)

    def read(self, step: int, variable: str | None, cell: Cell, over: Cell | None = None) -> None:
        """Notes where an iterate is read, or its prediction if `variable` is None."""
        self.s.readouts.append(Readout(step, variable, cell, over))


def no_loop() -> Refusal:
    return Refusal(
        "This construction does not leave its state where it found it, so that its step cannot be "
        "repeated: leave `looped=True` out."
    )


def complete(readouts: Iterable[Readout], program: Program) -> list[Readout]:
    """The readouts in order of their steps, including steps that leave the iterate unchanged."""
    known = list(readouts)
    first = {state["alpha"]: step for step, state in reversed(list(enumerate(program.states)))}
    for step, state in enumerate(program.states[1:], start=1):
        if state["alpha"] is None:
            raise Refusal(
                f"{program.solver} cannot be compiled: its iterate is still 0 after step {step}, and "
                "there is nothing to read."
            )
        earlier = first[state["alpha"]]
        if earlier < step:
            known += [
                replace(r, step=step)
                for r in known
                if r.step == earlier and r.variable in (None, "alpha")
            ]
    return sorted(known, key=lambda readout: readout.step)
