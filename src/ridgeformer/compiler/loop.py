"""The part of a circuit that is repeated: which blocks, and what one pass leaves for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ridgeformer.compiler.circuit import Cell


@dataclass(frozen=True)
class Carried:
    """A variable of the loop. Its cells are in the same columns, so that every pass finds it there."""

    before: Cell | None
    """What the blocks before the loop write; None for a variable that starts at 0."""
    start: Cell
    """As a pass finds it."""
    end: Cell
    """As a pass leaves it."""
    after: Cell | None = None
    """As the blocks after the loop find it, if they read it."""
    between: Cell | None = None
    """A value that attention leaves in its channels on the way from start to end, if there is one."""


@dataclass(frozen=True)
class Loop:
    """Blocks first … stop − 1. At both ends only what is carried and what never changes is alive."""

    first: int
    stop: int
    carried: tuple[Carried, ...]
    predictions: tuple[Cell, Cell] | None = None
    """The prediction from the iterate that a pass finds, and the same after the loop; None if passes
    predict nothing."""

    @property
    def blocks(self) -> tuple[int, int]:
        return self.first, self.stop

    @property
    def period(self) -> int:
        return self.stop - self.first

    @property
    def last_mlp(self) -> int:
        """The time of the last MLP of a pass."""
        return 2 * self.stop - 1

    @property
    def same_columns(self) -> list[tuple[Cell, Cell]]:
        """Pairs of cells of which the second takes the columns of the first, later."""
        predicted = [] if self.predictions is None else [self.predictions]
        return [*((v.start, v.end) for v in self.carried), *predicted]

    @property
    def replaced(self) -> list[tuple[Cell, Cell]]:
        """Pairs of an old value and the one that takes its channels."""
        pairs = [(v.start, v.end) for v in self.carried]
        if self.predictions is not None:
            during, after = self.predictions
            pairs += [(v.after, after) for v in self.carried if v.end is during and v.after]
        return pairs

    def may_continue(self, old: Cell, new: Cell) -> bool:
        """Whether a cell may continue in the channels of another that dies with it.

        What is carried has channels of its own: its end continues in those of its start, at once or
        after what is between, or is written to them afresh, and nothing else does.
        """
        for v in self.carried:
            if new is v.between:
                return old is v.start
            if new is v.end:
                return old is (v.between or v.start)
        return all(old not in (v.before, v.start, v.between, v.end, v.after) for v in self.carried)
