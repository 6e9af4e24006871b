"""From a solver to the weights of a transformer, one stage after the other."""

from __future__ import annotations

from math import ceil, log2
from typing import Any, Literal

from ridgeformer.compiler.assemble import Assembler, build
from ridgeformer.compiler.causal import FeatureLowering
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.layout import Layout, erase_the_dead, take_over
from ridgeformer.compiler.linear import DualLowering
from ridgeformer.compiler.lower import Lowering
from ridgeformer.compiler.sites import describe_sites
from ridgeformer.program import Program, largest, largest_vector, trace
from ridgeformer.solvers import Solver
from ridgeformer.types import Refusal

QUERY_ROOM = 1e6
"""Queries may be this many times as long as the largest singular value of the supports."""

PROMISE = {"float64": (1e-9, 100.0), "float32": (1e-3, 100.0)}
"""Relative error, and multiple of the solver's own round-off."""

LARGEST = {"float64": 1e300, "float32": 1e36}


def compile(
    solver: Solver,
    *,
    features: int,
    steps: int,
    ridge: float,
    max_eigenvalue: float,
    outputs: int = 1,
    causal: bool = False,
    mlp: Literal["relu", "reglu"] = "relu",
    dtype: Literal["float64", "float32"] = "float64",
) -> CompiledModel:
    """A linear-attention transformer that runs `steps` steps of the solver on the linear kernel.

    It serves every prompt with λ_max(K) ≤ max_eigenvalue, whatever its number of supports.
    """
    check_sizes(features=features, outputs=outputs, steps=steps)
    space: Literal["dual", "feature"] = "feature" if causal else "dual"
    program = trace(
        solver, steps=steps, ridge=ridge, max_eigenvalue=max_eigenvalue, dtype=dtype, space=space
    )
    gate = gate_constant(program, dtype)
    lowering = lower(program, features, outputs, causal, mlp)
    take_over(lowering.s)
    erase_the_dead(lowering.s)
    layout = Layout(lowering.s, lowering.phi, lowering.y)
    assembler = Assembler(lowering.s, layout.width, mlp == "reglu", gate)
    model = build(assembler, lowering, mask="causal" if causal else "prefix", mlp=mlp, dtype=dtype)
    return CompiledModel(
        model,
        certify(solver, program, features, outputs, space, dtype),
        describe_sites(lowering, assembler),
    )


def check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise Refusal(f"--{name} must be at least 1, got {value}.")


def gate_constant(program: Program, dtype: str) -> float:
    """A power of two above every value in the stream, with which an MLP silences a neuron."""
    # At a query, a mat-vec is as long as the query's features times Φᵀv.
    at_queries = QUERY_ROOM * program.max_eigenvalue * largest_vector(program)
    bound = max(largest(program), at_queries)
    if not bound < LARGEST[dtype]:
        raise Refusal(
            f"Values up to {bound:.3g} would occur, beyond the range of {dtype}: lower the ratio of "
            "--max-eigenvalue to --ridge, or use --dtype float64."
        )
    return float(2.0 ** ceil(log2(bound)))


def lower(program: Program, features: int, outputs: int, causal: bool, mlp: str) -> Lowering:
    backend = FeatureLowering if causal else DualLowering
    lowering = backend(outputs=outputs, features=features, gated=mlp == "reglu")
    lowering.run(program)
    # The answer stays in the stream, as predictions and as coefficients.
    for site in lowering.sites:
        if site.step == program.steps and site.name in ("alpha", "prediction"):
            site.cell.keep = True
    return lowering


def certify(
    solver: Solver, program: Program, features: int, outputs: int, space: str, dtype: str
) -> Certificate:
    relative_error, round_off_factor = PROMISE[dtype]
    least, most = program.target_norm
    return Certificate(
        solver=solver.name,
        precondition=getattr(solver, "precondition", "none"),
        kernel="linear",
        space=space,
        steps=program.steps,
        features=features,
        outputs=outputs,
        dtype=dtype,
        ridge=program.ridge,
        max_eigenvalue=program.max_eigenvalue,
        min_target_norm=least,
        max_target_norm=most,
        max_query_norm=QUERY_ROOM * program.max_eigenvalue**0.5,
        relative_error=relative_error,
        round_off_factor=round_off_factor,
    )


def size_report(model: CompiledModel) -> dict[str, Any]:
    """The numbers that describe a compiled model's size."""
    config, steps = model.transformer.config, model.certificate.steps
    return {
        "layers": config.n_layers,
        "layers per step": config.n_layers / steps,
        "d_model": config.d_model,
        "beyond features": config.d_model - model.certificate.features,
        "heads": config.n_heads,
        "d_head": config.d_head,
        "d_mlp": config.d_mlp,
        "parameters": sum(p.numel() for p in model.transformer.parameters()),
        "nonzero parameters": sum(int(p.count_nonzero()) for p in model.transformer.parameters()),
    }
