"""Linear attention: dot products of features; iterates in the supports, at one token, or as operators."""

from __future__ import annotations

from math import ceil, log2

from ridgeformer.compiler.backends.base import Backend, no_attention
from ridgeformer.compiler.backends.dual import DualLowering
from ridgeformer.compiler.backends.feature_space import FeatureLowering
from ridgeformer.compiler.backends.operators import OperatorLowering
from ridgeformer.compiler.certificate import QUERY_ROOM, Certificate, certify
from ridgeformer.compiler.circuit import Circuit
from ridgeformer.compiler.job import Job
from ridgeformer.compiler.targets import LinearAttention
from ridgeformer.program import Program, Scope, Space, largest, largest_factor, largest_vector
from ridgeformer.program.ranges import Bounds
from ridgeformer.types import Refusal

LARGEST = {"float64": 1e300, "float32": 1e36}


class LinearBackend(Backend):
    attention = "linear"

    def __init__(self, job: Job, target: LinearAttention) -> None:
        self.job, self.target = job, target
        self.causal, self.gated = target.causal, target.products is not None
        if target.products is not None and target.products.max_target is not None:
            raise Refusal("`max_target` means nothing with linear attention: leave it out.")
        if job.solver.smooths:
            raise Refusal(
                f"{job.solver.name} divides by a sum of kernel values, which linear attention does not "
                "normalise: use `to=SoftmaxAttention(…)`, or a solver that solves."
            )
        features = job.kernel.dot_product(job.features)
        if features is None and job.kernel.logits() is None:
            raise no_attention(job.kernel)
        if features is None:
            raise Refusal(
                f"Linear attention gives dot products, and the {job.kernel.name} kernel is not one: use "
                "`to=SoftmaxAttention(…)`, or `kernel=Linear()`."
            )
        self.feature_map = features
        self.check_feature_map()

    @property
    def space(self) -> Space:
        return "feature" if self.causal else "dual"

    @property
    def scope(self) -> Scope:
        return Scope(operators=not self.causal)

    def trace(self) -> Program:
        return self.job.trace(
            self.job.solver,
            steps=self.job.steps,
            ridge=self.job.needed_ridge,
            max_eigenvalue=self.target.max_eigenvalue,
            dtype=self.job.dtype,
            space=self.space,
            scope=self.scope,
        )

    def lower(self, program: Program, bounds: Bounds) -> Circuit:
        if program.operators:
            return OperatorLowering(
                outputs=self.job.outputs,
                features=self.projected_features,
                feature_map=self.feature_map,
                ridge=program.ridge,
            ).circuit(program)
        lowering = (FeatureLowering if self.causal else DualLowering)(
            outputs=self.job.outputs,
            features=self.projected_features,
            feature_map=self.feature_map,
            gated=self.gated,
            largest=largest_value(program, bounds, self.job.dtype),
        )
        return lowering.circuit(program)

    def certify(self, program: Program) -> Certificate:
        space: Space = "operator" if program.operators else self.space
        return certify(self.job, program, attention="linear", space=space)


LARGEST_FACTOR = 16.0
"""Room above ω·λ_max/c ≤ 4, by which a looped Chebyshev iteration multiplies K α before it is stored, and above
2.2√λ_max where a query reads an iterate that is a vector of features."""


def largest_value(program: Program, bounds: Bounds, dtype: str) -> float:
    """A power of two above every value in the stream. Theorem `compiled-cg` says why it is."""
    # At a query, a mat-vec is as long as the query's features times Φᵀv; a step may divide it by λ_max.
    grown = max(program.max_eigenvalue, LARGEST_FACTOR) * largest_vector(program, bounds)
    at_queries = QUERY_ROOM * max(program.max_eigenvalue**0.5, grown)
    bound = max(largest(program, bounds), largest_factor(program, bounds), at_queries)
    if not bound < LARGEST[dtype]:
        raise Refusal(
            f"Values up to {bound:.3g} would occur, beyond the range of {dtype}: lower the ratio of "
            '`max_eigenvalue` to `ridge`, or use `dtype="float64"`.'
        )
    return float(2.0 ** ceil(log2(bound)))
