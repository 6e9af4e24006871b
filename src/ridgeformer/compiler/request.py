"""What is asked of the compiler, and what a backend answers."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from torch import Tensor

from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.lower import Lowering
from ridgeformer.kernels import Kernel, Projected
from ridgeformer.program import Program
from ridgeformer.solvers import Solver
from ridgeformer.types import Refusal

QUERY_ROOM = 1e6
"""Queries may be this many times as long as the largest singular value of the supports."""

PROMISE = {"float64": (1e-9, 100.0), "float32": (1e-3, 100.0)}
"""Relative error, and multiple of the solver's own round-off."""


@dataclass(frozen=True)
class Request:
    solver: Solver
    features: int
    steps: int
    ridge: float | None
    outputs: int
    kernel: Kernel
    attention: Literal["linear", "softmax"]
    mlp: Literal["relu", "reglu"]
    dtype: Literal["float64", "float32"]
    causal: bool
    max_eigenvalue: float | None
    max_norm: float | None
    max_supports: int | None
    max_target: float | None
    mlp_width: int | None
    tolerance: float | None
    interval: tuple[float, float] | None
    heads: int | None
    epsilon: float | None

    def __post_init__(self) -> None:
        for name in ("features", "outputs", "steps"):
            if getattr(self, name) < 1:
                raise Refusal(f"--{name} must be at least 1, got {getattr(self, name)}.")
        if self.interval is not None and self.solver.name == "cg":
            raise Refusal("--interval tunes fixed coefficients, and cg has none: leave it out.")
        if self.interval is not None and not 0 < self.interval[0] < self.interval[1] < float("inf"):
            raise Refusal(
                f"--interval must be 0 < LO < HI, got {self.interval[0]} {self.interval[1]}."
            )

    @property
    def needed_ridge(self) -> float:
        if self.ridge is None:
            raise Refusal(f"--ridge is needed for {self.solver.name}: choose λ > 0.")
        return self.ridge

    @property
    def precondition(self) -> str:
        return getattr(self.solver, "precondition", "none")

    @property
    def kept_features(self) -> int:
        """How many channels of the stream hold features."""
        if isinstance(self.kernel, Projected):
            return self.kernel.kept(self.features)
        return self.features

    @property
    def embedding(self) -> Tensor | None:
        """The map from φ to the features in the stream; None for the identity."""
        return self.kernel.projection if isinstance(self.kernel, Projected) else None

    def refuse(self, where: str, *options: str) -> None:
        """Options that would be ignored are refused instead."""
        for name in options:
            if getattr(self, name) is not None:
                raise Refusal(
                    f"--{name.replace('_', '-')} means nothing with {where}: leave it out."
                )

    def certificate(
        self,
        program: Program,
        space: str,
        *,
        domain: Domain | None = None,
        absolute_error: float | None = None,
        relative_error: float | None = None,
    ) -> Certificate:
        usual_error, round_off_factor = PROMISE[self.dtype]
        least, most = program.target_norm
        return Certificate(
            solver=self.solver.name,
            precondition=self.precondition,
            kernel=self.kernel.to_dict(),
            attention=self.attention,
            space=space,
            steps=program.steps,
            features=self.features,
            outputs=self.outputs,
            dtype=self.dtype,
            ridge=program.ridge,
            max_eigenvalue=program.max_eigenvalue,
            min_target_norm=least,
            max_target_norm=most,
            max_query_norm=QUERY_ROOM * program.max_eigenvalue**0.5,
            max_norm=domain.max_norm if domain else None,
            max_supports=domain.max_supports if domain else None,
            max_target=domain.max_target if domain else None,
            interval=self.interval,
            relative_error=(relative_error or usual_error) if absolute_error is None else None,
            round_off_factor=round_off_factor,
            absolute_error=absolute_error if absolute_error != inf else None,
        )


@dataclass(frozen=True)
class Plan:
    """A schedule with its promise; what remains is to place it and to write it out."""

    lowering: Lowering
    certificate: Certificate
    gate: float = 1.0
    """What silences a neuron of a plain MLP at the tokens that it is not for."""
    embedding: Tensor | None = None
    """The map from φ to the features in the stream; the identity when left out."""
