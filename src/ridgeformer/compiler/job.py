"""What is to be compiled, whatever the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from ridgeformer.kernels import Kernel
from ridgeformer.program import Program, trace, trace_loop
from ridgeformer.solvers import Solver, check_solver
from ridgeformer.types import Refusal, check_number, check_whole

WIDEST = 2**15
"""More features or outputs than these make a model that is too large, with any method."""

Dtype = Literal["float64", "float32"]


@dataclass(frozen=True)
class Job:
    solver: Solver
    kernel: Kernel
    features: int
    outputs: int
    steps: int
    ridge: float | None
    dtype: Dtype
    looped: bool = False
    """Whether one step is compiled, to be repeated as often as a caller says; `steps` is then the most."""

    def __post_init__(self) -> None:
        check_solver(self.solver)
        for name in ("features", "outputs", "steps"):
            check_whole(name, getattr(self, name), least=1)
            # NumPy's integers would reach config.json, which holds Python's.
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("features", "outputs"):
            if getattr(self, name) > WIDEST:
                raise Refusal(f"`{name}` must be at most {WIDEST:,}, got {getattr(self, name):,}.")
        if self.ridge is not None:
            check_number("ridge", self.ridge)
        if self.dtype not in get_args(Dtype):
            raise Refusal(
                f"`dtype` must be one of {', '.join(get_args(Dtype))}; got {self.dtype!r}."
            )

    @property
    def trace(self) -> Callable[..., Program]:
        """How the solver is traced: all steps, or one for a loop."""
        return trace_loop if self.looped else trace

    @property
    def needed_ridge(self) -> float:
        if self.ridge is None:
            raise Refusal(f"`ridge` is needed for {self.solver.name}: choose λ > 0.")
        return self.ridge
