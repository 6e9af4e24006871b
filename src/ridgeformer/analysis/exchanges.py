"""What an exchange of states consists of: a candidate's run, how a layer holds its state, and moves of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.patterns import Units
from ridgeformer.solvers import EagerMachine
from ridgeformer.solvers.machine import Bounds
from ridgeformer.tasks import Prompt

EXTENDS = 1e-10
"""Rows extend in a direction if more than this part of their mean square is there."""


class NotingUnits(EagerMachine):
    """A machine that notes whether the solver keeps vectors in units that it renews."""

    renewed = False

    def unit(self, x: Tensor, bounds: Bounds, power: float = 0.5) -> Tensor:
        self.renewed = True
        return super().unit(x, bounds, power)


@dataclass(frozen=True)
class Run:
    """A candidate on some prompts, with its state after every step."""

    candidate: Candidate
    machine: NotingUnits
    states: list[Any]

    @staticmethod
    def of(candidate: Candidate, setting: Setting, prompt: Prompt, steps: int) -> Run:
        machine = NotingUnits(
            prompt, setting.kernel, setting.ridge, interval=(setting.lo, setting.hi)
        )
        states = [candidate.solver.init(machine)]
        for t in range(1, steps + 1):
            states.append(candidate.solver.step(machine, states[-1], t))
        return Run(candidate, machine, states)

    def vectors(self, t: int) -> dict[str, Float[Tensor, "batch k r"]]:
        """The parts of the state after step t that have an entry for each support."""
        shape = self.machine.prompt.y.shape
        return {
            name: value
            for name, value in self.states[t]._asdict().items()
            if isinstance(value, Tensor) and value.shape == shape
        }

    def moved(self, t: int, by: Mapping[str, Tensor]) -> Any:
        """The state after step t with some of its parts moved."""
        vectors = self.vectors(t)
        return self.states[t]._replace(
            **{name: vectors[name] + change for name, change in by.items() if name in vectors}
        )

    def predictions(self, state: Any) -> Float[Tensor, "batch q r"]:
        found: Tensor = self.candidate.solver.predict(self.machine, state)
        return found

    def effect(self, t: int, by: Mapping[str, Tensor]) -> Float[Tensor, "batch q r"]:
        """What the last prediction changes by if the state after step t is moved so."""
        state = self.moved(t, by)
        for s in range(t + 1, len(self.states)):
            state = self.candidate.solver.step(self.machine, state, s)
        return self.predictions(state) - self.predictions(self.states[-1])


@dataclass(frozen=True)
class Held:
    """A state as one layer holds it."""

    error: float
    """The part of its mean square that readouts miss."""
    units: Units
    single: Bool[Tensor, " columns"]
    """Whether a quantity is there in only one unit."""


@dataclass(frozen=True)
class Move:
    """A change of a state, and of the stream that holds it."""

    by: dict[str, Float[Tensor, "batch k r"]]
    """By how much each quantity moves, in the candidate's units."""
    supports: Float[Tensor, "batch k d"]


@dataclass(frozen=True)
class Exchange:
    """What is exchanged after one step, on the prompts that score."""

    step: int
    layer: int
    read_error: float
    to_other: Move
    to_mirror: Move
    """To the state of B, and to that of its mirror image."""

    @property
    def moves(self) -> tuple[Move, Move]:
        return self.to_other, self.to_mirror


def turn(
    changes: Sequence[Float[Tensor, "batch n d"]],
    differences: Float[Tensor, "some n d"],
    generator: torch.Generator,
) -> list[Float[Tensor, "batch n d"]]:
    """The changes in as many random directions, others for each prompt, with the same lengths.

    They are perpendicular to those of the changes, and among those in which B's streams differ from A's. Other
    directions are no fair ones: they hold the features, or nothing that ever varies, and change the system
    that is solved or break the model.
    """
    batch = len(changes[0])
    right = basis(torch.cat(list(changes)))
    free = basis(differences - differences @ right @ right.mT, beside=differences)
    if not right.shape[1] or not free.shape[1]:
        return [torch.zeros_like(change) for change in changes]
    normal = torch.randn(
        batch, free.shape[1], right.shape[1], generator=generator, dtype=torch.float64
    )
    frames, upper = torch.linalg.qr(normal)
    # With these signs no direction is more likely than another.
    frames = frames * upper.diagonal(dim1=1, dim2=2).sign()[:, None]
    return [(change @ right)[..., : frames.shape[2]] @ frames.mT @ free.mT for change in changes]


def basis(
    rows: Float[Tensor, "batch n d"], beside: Float[Tensor, "batch n d"] | None = None
) -> Float[Tensor, "d some"]:
    """An orthonormal basis of the directions in which rows extend, by more than round-off of those beside."""
    flat = rows.flatten(0, 1)
    sizes, axes = torch.linalg.eigh(flat.mT @ flat)
    whole = (rows if beside is None else beside).square().sum()
    found: Tensor = axes[:, sizes > EXTENDS * whole.clamp(min=1e-300)]
    return found


def columns(values: Float[Tensor, "batch n r"]) -> Float[Tensor, "r batch n"]:
    return values.permute(2, 0, 1)


def vectors(
    values: Float[Tensor, "columns batch n"], count: int
) -> list[Float[Tensor, "batch n r"]]:
    """What `columns` made of several quantities, one after the other."""
    return [part.permute(1, 2, 0) for part in values.chunk(count)]
