"""The solver of a compiled model, run by its own numerics with every state kept, and gone on with from a changed one.

Nothing here runs a transformer: it is the reference that labels and the answers of interventions come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.exchanges import NotingUnits
from ridgeformer.compiler import CompiledModel
from ridgeformer.models.reference import interval_of, kernel_of, ridge_of, solver_of
from ridgeformer.solvers import EagerMachine, Solver
from ridgeformer.solvers.feature_machine import FeatureMachine
from ridgeformer.tasks import Prompt


class NotingKeys(FeatureMachine):
    """A machine that notes whether the solver applies an operator to what an operator has made already."""

    keyed = False

    def apply(self, operator: Tensor, v: Tensor, key: Tensor | None = None) -> Tensor:
        self.keyed = self.keyed or key is not None
        return super().apply(operator, v, key)


@dataclass(frozen=True)
class Numerics:
    """A solver on a batch of prompts, with its states after steps 0 … T.

    In dual space vectors are [batch, k, r]. In the other spaces the solver works in feature space: vectors are
    [batch, p, r], and operators are matrices [batch, p, p].
    """

    model: CompiledModel
    prompt: Prompt
    solver: Solver
    machine: EagerMachine
    states: list[Any]

    @staticmethod
    def of(model: CompiledModel, prompt: Prompt) -> Numerics:
        solver, kernel = solver_of(model), kernel_of(model)
        if solver.smooths:
            machine: EagerMachine = NotingUnits(prompt, kernel, 1.0)
        else:
            kind = NotingUnits if model.certificate.space == "dual" else NotingKeys
            machine = kind(prompt, kernel, ridge_of(model), interval=interval_of(model))
        states = [solver.init(machine)]
        for t in range(1, model.certificate.steps + 1):
            states.append(solver.step(machine, states[-1], t))
        return Numerics(model, prompt, solver, machine, states)

    @property
    def steps(self) -> int:
        return len(self.states) - 1

    def predictions(self, state: Any) -> Float[Tensor, "batch q r"]:
        found: Tensor = self.solver.predict(self.machine, state)
        return found

    @property
    def final(self) -> Float[Tensor, "batch q r"]:
        return self.predictions(self.states[-1])

    def finished(self, t: int, changed: Mapping[str, Tensor]) -> Float[Tensor, "batch q r"]:
        """The last predictions if some parts of the state after step t are others."""
        state = self.states[t]._replace(**changed)
        for s in range(t + 1, self.steps + 1):
            state = self.solver.step(self.machine, state, s)
        return self.predictions(state)

    def value(self, name: str, t: int) -> Tensor:
        """A part of the state after step t, in the units of the solver's own numerics."""
        found: Tensor = getattr(self.states[t], name)
        return found

    @property
    def renews_units(self) -> bool:
        """Whether the solver keeps vectors in units that it renews, in which a compiled one is free."""
        return isinstance(self.machine, NotingUnits) and self.machine.renewed

    @property
    def keeps_operators_twice(self) -> bool:
        """Whether a compiled model has a second image of each operator, with which queries read."""
        return isinstance(self.machine, NotingKeys) and self.machine.keyed
