"""What is to be compiled, whatever the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ridgeformer.kernels import Kernel
from ridgeformer.program import Program, trace, trace_loop
from ridgeformer.solvers import Solver
from ridgeformer.types import Refusal

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
        for name in ("features", "outputs", "steps"):
            if getattr(self, name) < 1:
                raise Refusal(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        interval = self.solver.interval
        if interval is not None and not 0 < interval[0] < interval[1] < float("inf"):
            raise Refusal(
                f"`interval` must be two numbers 0 < LO < HI, got {interval[0]} {interval[1]}."
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
