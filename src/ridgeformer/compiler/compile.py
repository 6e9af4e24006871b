"""From a solver to the weights of a transformer, one stage after the other."""

from __future__ import annotations

from math import ceil, log2
from typing import Any, Literal

from ridgeformer.compiler.assemble import Assembler, build
from ridgeformer.compiler.causal import FeatureLowering
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.features import polynomial_features
from ridgeformer.compiler.layout import Layout, erase_the_dead, take_over
from ridgeformer.compiler.linear import DualLowering
from ridgeformer.compiler.request import QUERY_ROOM, Plan, Request
from ridgeformer.compiler.sites import describe_sites
from ridgeformer.compiler.softmax_plan import softmax_plan
from ridgeformer.compiler.targets import (
    Exact,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
    Target,
)
from ridgeformer.kernels import Kernel, Linear, Polynomial
from ridgeformer.program import Program, Scope, largest, largest_vector, trace
from ridgeformer.solvers import Solver
from ridgeformer.types import Refusal

LARGEST = {"float64": 1e300, "float32": 1e36}


def compile(
    solver: Solver,
    *,
    features: int,
    steps: int = 1,
    ridge: float | None = None,
    to: Target | None = None,
    outputs: int = 1,
    kernel: Kernel | None = None,
    attention: Literal["linear", "softmax"] = "linear",
    mlp: Literal["relu", "reglu"] = "relu",
    dtype: Literal["float64", "float32"] = "float64",
    causal: bool = False,
    max_eigenvalue: float | None = None,
    max_norm: float | None = None,
    max_supports: int | None = None,
    max_target: float | None = None,
    mlp_width: int | None = None,
    tolerance: float | None = None,
    interval: tuple[float, float] | None = None,
    heads: int | None = None,
    epsilon: float | None = None,
) -> CompiledModel:
    """A transformer that runs `steps` steps of the solver.

    With linear attention it serves every prompt with λ_max(K) ≤ max_eigenvalue, whatever its number
    of supports. With softmax attention the domain is |φ| ≤ max_norm, k ≤ max_supports and, where the
    MLP is a plain ReLU, |y| ≤ max_target; such a model promises `tolerance`, or what `mlp_width`
    neurons allow. `interval` is what fixed coefficients are tuned to, instead of the certain one.
    The linear kernel takes an even number of softmax `heads`, at multiples of the scale `epsilon`.
    """
    products: Exact | Interpolated | None = None
    match to:
        case LinearAttention():
            attention, causal, products = "linear", to.causal, to.products
            max_eigenvalue = to.max_eigenvalue
        case SoftmaxAttention():
            attention, products = "softmax", to.products
            max_norm, max_supports = to.max_norm, to.max_supports
            if to.dot_products is not None:
                heads, epsilon = to.dot_products.heads, to.dot_products.epsilon
            if isinstance(products, Interpolated):
                max_target, tolerance, mlp_width = (
                    products.max_target, products.tolerance, products.width
                )  # fmt: skip
    if to is not None:
        mlp = "reglu" if isinstance(products, Exact) else "relu"
    interval = interval or solver.interval
    request = Request(
        solver=solver, features=features, steps=steps, ridge=ridge, outputs=outputs,
        kernel=kernel or Linear(), attention=attention, mlp=mlp, dtype=dtype, causal=causal,
        max_eigenvalue=max_eigenvalue, max_norm=max_norm, max_supports=max_supports,
        max_target=max_target, mlp_width=mlp_width, tolerance=tolerance, interval=interval,
        heads=heads, epsilon=epsilon,
    )  # fmt: skip
    plan = softmax_plan(request) if attention == "softmax" else linear_plan(request)
    return assembled(plan, request)


def assembled(plan: Plan, request: Request) -> CompiledModel:
    """The plan's schedule placed in the residual stream and written out as weights."""
    lowering = plan.lowering
    # The answer stays in the stream, as predictions and as coefficients.
    for site in lowering.sites:
        if site.step == request.steps and site.name in ("alpha", "prediction"):
            site.cell.keep = True
    take_over(lowering.s)
    erase_the_dead(lowering.s)
    layout = Layout(lowering.s, lowering.raw, lowering.y)
    assembler = Assembler(lowering.s, layout.width, request.mlp == "reglu", plan.gate)
    model = build(
        assembler,
        lowering,
        mask="causal" if request.causal else "prefix",
        mlp=request.mlp,
        dtype=request.dtype,
        attention=request.attention,
        embedding=plan.embedding,
    )
    return CompiledModel(model, plan.certificate, describe_sites(lowering, assembler))


def linear_plan(request: Request) -> Plan:
    request.refuse("linear attention", "mlp_width", "tolerance", "heads", "epsilon")
    request.refuse("linear attention", "max_norm", "max_supports", "max_target")
    if request.solver.smooths:
        raise Refusal(
            f"{request.solver.name} divides by a sum of kernel values, which linear attention does not "
            "normalise: use --attention softmax; the nearest solver with linear attention is gd."
        )
    if request.max_eigenvalue is None:
        raise Refusal("--max-eigenvalue is needed with linear attention: it bounds λ_max(K).")
    if not isinstance(request.kernel, (Linear, Polynomial)):
        raise Refusal(
            f"Linear attention gives dot products, not the {request.kernel.name} kernel: use "
            "--attention softmax, or --kernel linear."
        )
    if isinstance(request.kernel, Polynomial) and request.mlp != "reglu":
        raise Refusal(
            "A polynomial kernel needs products of features, which a plain ReLU MLP does not form "
            "exactly: use --mlp reglu."
        )
    space: Literal["dual", "feature"] = "feature" if request.causal else "dual"
    program = trace(
        request.solver,
        steps=request.steps,
        ridge=request.needed_ridge,
        max_eigenvalue=request.max_eigenvalue,
        dtype=request.dtype,
        space=space,
        scope=Scope(interval=request.interval),
    )
    gate = gate_constant(program, request.dtype)
    backend = FeatureLowering if request.causal else DualLowering
    lowering = backend(
        outputs=request.outputs, features=request.kept_features, gated=request.mlp == "reglu"
    )
    if isinstance(request.kernel, Polynomial):
        lowering.build_on(polynomial_features(lowering.s, lowering.phi, request.kernel))
    lowering.run(program)
    return Plan(lowering, request.certificate(program, space), gate, request.embedding)


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


def size_report(model: CompiledModel) -> dict[str, Any]:
    """The numbers that describe a compiled model's size."""
    config, steps = model.transformer.config, model.certificate.steps
    projection = model.certificate.kernel.get("projection")
    kept = model.certificate.features if projection is None else len(projection)
    return {
        "layers": config.n_layers,
        "layers per step": config.n_layers / steps,
        "d_model": config.d_model,
        "kept features": kept,
        "beyond features": config.d_model - kept,
        "heads": config.n_heads,
        "d_head": config.d_head,
        "d_mlp": config.d_mlp,
        "parameters": sum(p.numel() for p in model.transformer.parameters()),
        "nonzero parameters": sum(int(p.count_nonzero()) for p in model.transformer.parameters()),
    }
