"""A backend compiles to one kind of target: it traces, lowers and certifies; the passes do the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.circuit import Circuit
from ridgeformer.compiler.job import Job
from ridgeformer.kernels import FeatureMap, Kernel
from ridgeformer.program import Program
from ridgeformer.program.ranges import Bounds
from ridgeformer.types import Refusal


class Backend(ABC):
    """A backend is made for one job, and refuses a job that the target cannot do."""

    job: Job
    attention: Literal["linear", "softmax"]
    causal = False
    gated: bool
    """Whether the MLP multiplies."""
    feature_map: FeatureMap

    @abstractmethod
    def trace(self) -> Program:
        """The recurrence as a program, for every prompt of the domain."""

    @abstractmethod
    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        """The program as cells, heads and neurons, each as early as its inputs allow."""

    @abstractmethod
    def certify(self, program: Program) -> Certificate:
        """What the model promises, and for which prompts."""

    @property
    def projected_features(self) -> int:
        return self.feature_map.projected_width(self.job.features)

    def check_feature_map(self) -> None:
        """Refuses a plain ReLU MLP for a kernel that needs products of features."""
        if self.feature_map.monomials is not None and not self.gated:
            raise Refusal(
                f"The {self.job.kernel.name} kernel needs products of features, which a plain ReLU MLP "
                "does not form exactly: use `products=Exact()`."
            )


def no_attention(kernel: Kernel) -> Refusal:
    return Refusal(
        f"The {kernel.name} kernel cannot be compiled: attention makes dot products of finitely many "
        "features, and exponentials of them, and it is neither; `solve` runs on it as it is."
    )
