"""Plans for softmax attention: the domain, the program for it, and the promise that can be made."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2

from ridgeformer.compiler.assemble import Assembler
from ridgeformer.compiler.domain import LARGEST_LOGIT, Domain
from ridgeformer.compiler.dot_product import DotProductLowering
from ridgeformer.compiler.layout import erase_the_dead, take_over
from ridgeformer.compiler.multiply import FINE_ENOUGH, Grid, Multiplier, SquareMultiplier
from ridgeformer.compiler.relu_plan import RESERVE, check_relu, choose_grid, error_budget, narrower
from ridgeformer.compiler.request import PROMISE, Plan, Request
from ridgeformer.compiler.softmax import SoftmaxLowering
from ridgeformer.program import Program, Scope, trace
from ridgeformer.types import Refusal


def softmax_plan(request: Request) -> Plan:
    if request.causal:
        raise Refusal(
            "With softmax attention every support must read all supports: leave --causal out, or use "
            "--attention linear."
        )
    request.refuse("softmax attention", "max_eigenvalue")
    if request.kernel.name == "polynomial":
        raise Refusal(
            "A polynomial kernel is a dot product of monomials: use --attention linear --mlp reglu."
        )
    if request.kernel.name == "linear":
        return dot_product_plan(request)
    request.refuse(f"the {request.kernel.name} kernel", "heads", "epsilon")
    if request.solver.smooths:
        return smoother_plan(request)
    domain = needed_domain(request)
    domain.check(request.dtype)
    if request.mlp == "relu":
        return relu_plan(request, domain)
    request.refuse("exact products (--mlp reglu)", "mlp_width", "tolerance")
    program = softmax_program(request, domain)
    lowering = backend(request, domain, Multiplier())
    lowering.run(program)
    certificate = request.certificate(program, "dual", domain=domain)
    return Plan(lowering, certificate, embedding=request.embedding)


def relu_plan(request: Request, domain: Domain) -> Plan:
    """Products by interpolation, as fine as the tolerance asks or the width allows."""
    check_relu(request, domain)
    program = softmax_program(request, domain)
    budget = error_budget(request, domain, program)
    grid = choose_grid(request, budget)
    if request.mlp_width is not None:
        # A few neurons update, copy and erase: a short program shows how many.
        short = replace(request, steps=min(request.steps, 3))
        trial = lowered(short, domain, softmax_program(short, domain), grid)
        take_over(trial.s)
        erase_the_dead(trial.s)
        excess = Assembler(trial.s, 0, gated=False, gate=1.0).d_mlp - request.mlp_width
        grid = narrower(grid, excess, request.outputs) if excess > 0 else grid
    lowering = lowered(request, domain, program, grid)
    error = budget.error(grid)
    certificate = request.certificate(program, "dual", domain=domain, absolute_error=error)
    return Plan(lowering, certificate, lowering.multiplier.gate, request.embedding)


def lowered(request: Request, domain: Domain, program: Program, grid: Grid) -> SoftmaxLowering:
    assert domain.max_target is not None
    # Two fine products may run side by side, with some neurons for copies and erasures.
    room = 126 if request.mlp_width is None else min(126, (request.mlp_width - 44) // 2)
    multiplier = SquareMultiplier(grid, neurons=room)
    lowering = backend(request, domain, multiplier)
    lowering.ratio_sites, lowering.room = request.precondition == "row-sum", RESERVE
    multiplier.know(lowering.phi, -domain.max_norm, domain.max_norm)
    multiplier.know(lowering.y, -domain.max_target, domain.max_target)
    lowering.run(program)
    return lowering


def softmax_program(request: Request, domain: Domain) -> Program:
    target = None
    if domain.max_target is not None:
        target = domain.max_supports**0.5 * domain.max_target
    return trace(
        request.solver,
        steps=request.steps,
        ridge=request.needed_ridge,
        max_eigenvalue=domain.max_eigenvalue,
        dtype=request.dtype,
        scope=Scope(domain.row_sums, target, request.interval),
    )


def backend(request: Request, domain: Domain, multiplier: Multiplier) -> SoftmaxLowering:
    return SoftmaxLowering(
        outputs=request.outputs,
        features=request.kept_features,
        kernel=request.kernel,
        multiplier=multiplier,
        row_sums=domain.row_sums,
        max_supports=domain.max_supports,
        push=push(domain.largest_logit),
    )


def push(largest_logit: float) -> float:
    """A logit beyond every other by so much that their exponentials vanish beside it."""
    return float(2.0 ** ceil(log2(1000 + 4 * largest_logit)))


def dot_product_plan(request: Request) -> Plan:
    """The linear kernel, as the derivative of softmax averages; see `dot_product`."""
    if request.solver.smooths:
        raise Refusal(
            "nadaraya-watson needs a positive kernel: use --kernel exponential or gaussian."
        )
    if request.mlp != "reglu":
        raise Refusal(
            "Dot products from softmax heads are multiplied by the number of supports, a product "
            "within a token: use --mlp reglu."
        )
    request.refuse("exact products (--mlp reglu)", "mlp_width", "tolerance")
    heads = request.heads or 8
    if heads < 2 or heads % 2 or heads > 12:
        raise Refusal(f"--heads must be 2, 4, … or 12, in pairs of opposite scale, got {heads}.")
    domain = needed_domain(request)
    longest = domain.kernel.range(domain.max_norm).most ** 0.5  # of Uφ
    if longest == 0:
        raise Refusal(
            "The projection is 0, and leaves no dot products: give a U that keeps something."
        )
    # Truncation falls as x^heads and round-off grows as 1/x, for logits up to x.
    unit = 1e-15 if request.dtype == "float64" else 1e-6
    logit = unit ** (1 / (heads + 1))
    if request.epsilon is not None:
        if not request.epsilon > 0:
            raise Refusal(f"--epsilon must be positive, got {request.epsilon}.")
        logit = request.epsilon * longest**2
    program = trace(
        request.solver,
        steps=request.steps,
        ridge=request.needed_ridge,
        max_eigenvalue=domain.max_eigenvalue,
        dtype=request.dtype,
        scope=Scope(interval=request.interval),
    )
    lowering = DotProductLowering(
        outputs=request.outputs,
        features=request.kept_features,
        kernel=request.kernel,
        max_supports=domain.max_supports,
        head_pairs=heads // 2,
        epsilon=logit / longest**2,
        push=push(heads * logit),
    )
    lowering.run(program)
    condition = 1 + domain.max_eigenvalue / request.needed_ridge
    error = 10 * request.steps * condition * (logit**heads + unit / logit)
    certificate = request.certificate(
        program, "dual", domain=domain, relative_error=max(PROMISE[request.dtype][0], error)
    )
    return Plan(lowering, certificate, embedding=request.embedding)


def needed_domain(request: Request) -> Domain:
    if request.max_norm is None or request.max_supports is None:
        raise Refusal(
            "With softmax attention the domain is needed: --max-norm bounds |φ| and --max-supports k."
        )
    return Domain(request.kernel, request.max_norm, request.max_supports, request.max_target)


ROOMY_LOGIT = 2.0**18
"""The largest logit that a smoother serves when no --max-norm is given."""


def smoother_plan(request: Request) -> Plan:
    """One head that averages targets: Nadaraya–Watson, for any number of supports."""
    request.refuse("nadaraya-watson", "max_target", "mlp_width", "tolerance", "interval")
    if request.steps != 1:
        raise Refusal("nadaraya-watson is one head, not an iteration: leave --steps out.")
    max_norm = request.max_norm
    if max_norm is None:
        if request.kernel.name == "gaussian" and request.mlp == "relu":
            raise Refusal(
                "A plain ReLU MLP squares |x| only over a range: give --max-norm, or use --mlp reglu."
            )
        roomy = ROOMY_LOGIT
        if request.kernel.name == "gaussian":
            roomy = min(roomy, LARGEST_LOGIT[request.dtype])
        max_norm = (roomy / Domain(request.kernel, 1.0, 1).largest_logit) ** 0.5
    domain = Domain(request.kernel, max_norm, request.max_supports or 1)
    domain.check_logits(request.dtype)
    program = trace(request.solver, steps=1, ridge=1.0, max_eigenvalue=1.0, dtype=request.dtype)
    lowering = SoftmaxLowering(
        outputs=request.outputs,
        features=request.kept_features,
        kernel=request.kernel,
        multiplier=Multiplier() if request.mlp == "reglu" else SquareMultiplier(),
        push=push(domain.largest_logit),
    )
    lowering.multiplier.know(lowering.phi, -max_norm, max_norm)
    lowering.run(program)
    error = PROMISE[request.dtype][0]
    if request.mlp == "relu" and request.kernel.name == "gaussian":
        # Both norms in a logit are interpolated, and a logit off by δ changes its weight by e^δ.
        error = max(error, 4 * domain.largest_logit * 4 / FINE_ENOUGH)
    certificate = request.certificate(program, "dual", domain=domain, relative_error=error)
    certificate = replace(certificate, max_supports=request.max_supports, ridge=None)
    return Plan(lowering, certificate, lowering.multiplier.gate, request.embedding)
