"""Heads and widths for dot products of a given accuracy, as the table in docs/compiles.md."""

from __future__ import annotations

from ridgeformer.compiler.backends.head_errors import LARGEST_PROMISE, HeadPairPromise
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.job import Job
from ridgeformer.compiler.size import size_report
from ridgeformer.compiler.targets import HeadPairs, SoftmaxAttention
from ridgeformer.kernels import Linear
from ridgeformer.solvers import ConjugateGradient, GradientDescent
from ridgeformer.theory import UNIT, best_scale

HEADS, SUPPORTS, RIDGES, FEATURES = (2, 4, 6, 8, 10, 12), (16, 64, 256), (1.0, 0.1, 0.01), 4
MOST_STEPS = 64


def cg_steps(heads: int, supports: int, ridge: float) -> int:
    """How many steps of CG can be promised for |φ| ≤ 1."""
    errors = best_scale(supports, FEATURES, heads // 2, 1.0, UNIT["float64"])
    job = Job(ConjugateGradient(), Linear(), FEATURES, 1, MOST_STEPS, ridge, "float64")
    promise = HeadPairPromise(job, Domain(Linear(), 1.0, supports), errors)
    return max((t for t in range(1, 16) if promise.error(t) <= LARGEST_PROMISE), default=0)


def row(heads: int) -> list[str]:
    found = [best_scale(k, FEATURES, heads // 2, 1.0, UNIT["float64"]) for k in SUPPORTS]
    to = SoftmaxAttention(1.0, SUPPORTS[0], dot_products=HeadPairs(heads))
    size = size_report(compile(GradientDescent(), features=FEATURES, steps=1, ridge=1.0, to=to))
    return [
        str(heads),
        f"{found[0].epsilon:.1e}",
        *(f"{errors.operator / errors.supports:.0e}" for errors in found),
        *(str(size[name]) for name in ("heads", "d_model", "d_mlp")),
        *(str(cg_steps(heads, SUPPORTS[0], ridge)) for ridge in RIDGES),
    ]


def head_table() -> list[str]:
    """The lines of the section."""
    header = [
        "heads", "ε", *(f"‖E‖/k, k = {k}" for k in SUPPORTS), "all heads", "d_model", "d_mlp",
        *(f"CG steps, λ = {ridge:g}" for ridge in RIDGES),
    ]  # fmt: skip
    return [
        "## Heads for a dot product",
        "",
        "Where softmax heads make dot products, K v is computed as (K + E)v, and [theorem 19](theorems.md) bounds ‖E‖,",
        f"round-off included, for all prompts with |φ| ≤ 1, p = {FEATURES} and at most k supports; ‖K‖ may reach k. The scale ε",
        f"of the heads is that with the least bound, here for k = {SUPPORTS[0]}. The width does not depend on the error: to go from 1e-9",
        "to 2e-12 takes six more heads and nothing else. All heads, d_model and d_mlp are those of gradient descent. The last",
        f"columns say how many steps of CG without preconditioner can be promised for k = {SUPPORTS[0]}, by [theorem 18](theorems.md).",
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row(heads)) + " |" for heads in HEADS),
        "",
    ]
