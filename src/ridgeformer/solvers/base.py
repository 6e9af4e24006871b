"""`Solver`: a recurrence written once; `solve`: the recurrence run eagerly, as a `Trajectory`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from numbers import Real
from typing import Any, ClassVar, get_args

import torch

from ridgeformer.kernels import Kernel, kernel_or_default
from ridgeformer.registry import Registry
from ridgeformer.solvers.machine import EagerMachine, Interval, Machine, Precondition, Value
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, Trajectory, check_number, check_whole

State = Any
"""A NamedTuple of values with a field `alpha`, the current coefficients."""


MOST_STEPS = 1_000_000
"""More would take days, or memory that no machine has."""


class Solver(ABC):
    """An iterative method for A α = y, from α = 0."""

    name: str
    registry: ClassVar[Registry[type[Solver]]] = Registry("solver")
    smooths = False
    """Whether predictions are averages, divided by Σ_j k_j(x)."""
    preconditioners: tuple[Precondition, ...] = ("none",)
    """Those that it takes; a solver that takes several has a field `precondition`."""
    precondition: Precondition = "none"
    interval: Interval | None = None
    """What fixed coefficients are tuned to, instead of what the machine knows of the spectrum."""

    @abstractmethod
    def init(self, m: Machine) -> State:
        """The state before the first step."""

    @abstractmethod
    def step(self, m: Machine, s: State, t: int) -> State:
        """The state after step t, counted from 1.

        A step that does not read t, but in bounds, can be repeated by a loop.
        """

    steps_before_loop = 0
    """How many steps `loop_start` has taken already."""

    def loop_start(self, m: Machine) -> State:
        """The state before the first pass of a loop, all of whose passes are the same step."""
        return self.init(m)

    def predict(self, m: EagerMachine, s: State) -> Value:
        """Predictions at the queries."""
        return m.smooth(s.alpha) if self.smooths else m.predict(s.alpha)


def check_solver(solver: Any) -> None:
    """Refuses what is no solver, with what to write, and a preconditioner or an interval that cannot be."""
    if not isinstance(solver, Solver):
        kind = Solver.registry.get(solver, solver) if isinstance(solver, str) else solver
        example = kind.__name__ if isinstance(kind, type) else "ConjugateGradient"
        raise Refusal(f"`solver` must be a Solver, such as `{example}()`; got {solver!r}.")
    if solver.precondition not in get_args(Precondition):
        known = ", ".join(get_args(Precondition))
        raise Refusal(f"There is no preconditioner {solver.precondition!r}: choose from {known}.")
    check_interval(solver.interval)


def check_state(state: Any) -> None:
    """Refuses what a method of one's own returns in place of a state."""
    if not (isinstance(state, tuple) and hasattr(state, "_asdict") and hasattr(state, "alpha")):
        raise Refusal(
            "`init` and `step` of a solver must return a NamedTuple with a field alpha; got "
            f"{type(state).__name__}."
        )


def check_interval(interval: Any) -> None:
    """Refuses what are no two ends of an interval in which eigenvalues can lie."""
    if interval is None:
        return
    ends = tuple(interval) if isinstance(interval, tuple | list) else ()
    numbers = [end for end in ends if isinstance(end, Real) and not isinstance(end, bool)]
    if len(ends) != 2 or len(numbers) != 2 or not 0 < ends[0] <= ends[1] < inf:
        said = " ".join(map(str, ends)) or repr(interval)
        raise Refusal(f"`interval` must be two numbers 0 < LO ≤ HI, got {said}.")


def solve(
    solver: Solver,
    prompt: Prompt,
    *,
    steps: int,
    ridge: float,
    kernel: Kernel | None = None,
    max_eigenvalue: float | None = None,
    interval: Interval | None = None,
    states: bool = False,
) -> Trajectory:
    """Runs a solver as numerics: `steps` steps on every prompt at once.

    Fixed-coefficient methods are tuned to `interval`, else to [λ, λ + max_eigenvalue], else to the
    extreme eigenvalues of the prompts themselves.

    solver   an instance of a solver, such as `ConjugateGradient()`
    prompt   the problems to solve
    steps   how many steps to take; the result has one prediction more, that of the start
    ridge   λ, which must be positive
    kernel   the kernel, `Linear()` if it is left out
    max_eigenvalue   a bound on the largest eigenvalue of K
    interval   where all eigenvalues of the system lie, in place of that bound
    states   whether every vector of the state is kept, too
    """
    check_solver(solver)
    check_interval(interval)
    if max_eigenvalue is not None:
        check_number("max_eigenvalue", max_eigenvalue)
        if not 0 < max_eigenvalue < inf:
            raise Refusal(f"`max_eigenvalue` must be positive and finite, got {max_eigenvalue}.")
    machine = EagerMachine(prompt, kernel_or_default(kernel), ridge, max_eigenvalue, interval)
    return run(solver, machine, steps=steps, states=states)


def run(solver: Solver, machine: EagerMachine, *, steps: int, states: bool = False) -> Trajectory:
    """Runs `steps` steps on a machine; `states=True` keeps every vector of the state."""
    check_whole("steps", steps)
    if steps > MOST_STEPS:
        raise Refusal(
            f"`steps` must be at most {MOST_STEPS:,}, as predictions are kept after each; got {steps:,}."
        )
    state = solver.init(machine)
    check_state(state)
    history = [state]
    predictions = [solver.predict(machine, state)]
    for t in range(1, steps + 1):
        state = solver.step(machine, state, t)
        check_state(state)
        predictions.append(solver.predict(machine, state))
        history.append(state) if states else None
    kept = {}
    if states:
        kept = {
            name: torch.stack([v for s in history if (v := getattr(s, name)) is not None])
            for name, value in state._asdict().items()
            if all(isinstance(getattr(s, name), torch.Tensor) for s in history)
            and value.shape == machine.target().shape
        }
    return Trajectory(torch.stack(predictions), solver.name, kept)
