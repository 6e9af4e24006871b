"""Shared vocabulary: dimension names, the `Trajectory`, and the errors that users meet.

Dimension glossary, used in every shape annotation:

    batch  prompts            k  supports of a prompt      q  queries of a prompt
    p      features           r  outputs                   n  tokens (k + 1 aggregator + q)
    steps  iterates, including the zeroth
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from jaxtyping import Float
from torch import Tensor


class Refusal(ValueError):
    """A request that cannot be met, said in one sentence: the cause, the value seen, and the remedy."""


class Interrupted(KeyboardInterrupt):
    """An interruption of work that is kept: its message says what is kept, and how to go on."""


@dataclass(frozen=True)
class Trajectory:
    """Predictions after each step of a solver, or after each layer of a model.

    Solvers, programs and transformers all yield this, so that every comparison is one function.
    `states` holds what was asked for besides, such as `alpha`: one entry per step at which it exists.
    """

    predictions: Float[Tensor, "steps batch q r"]
    label: str = ""
    states: Mapping[str, Float[Tensor, "_ batch k r"]] = field(default_factory=dict)

    @property
    def final(self) -> Float[Tensor, "batch q r"]:
        return self.predictions[-1]

    @property
    def steps(self) -> int:
        """Number of steps taken; the trajectory has one more entry, the start."""
        return self.predictions.shape[0] - 1

    def distance(
        self, other: Trajectory | Float[Tensor, "batch q r"]
    ) -> Float[Tensor, "steps batch"]:
        """Largest absolute difference over queries and outputs, per step and prompt."""
        target = other.predictions if isinstance(other, Trajectory) else other
        return (self.predictions - target).abs().amax(dim=(-2, -1))

    def __repr__(self) -> str:
        _, batch, queries, outputs = self.predictions.shape
        kept = f", states {', '.join(self.states)}" if self.states else ""
        return (
            f"Trajectory{self.label and f' of {self.label}'}: {counted(self.steps, 'step')}, "
            f"{counted(batch, 'problem')} of {counted(queries, 'query', 'queries')}, "
            f"{counted(outputs, 'output')}{kept}"
        )


def check_whole(name: str, value: Any, least: float = 0) -> None:
    """Refuses what is no whole number, or too small a one."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise Refusal(f"`{name}` must be a whole number, got {value!r}.")
    if value < least:
        raise Refusal(f"`{name}` must be at least {least}, got {value}.")


def check_number(name: str, value: Any) -> None:
    """Refuses what is no number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise Refusal(f"`{name}` must be a number, got {value!r}.")


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: "1 step", "8 steps"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
