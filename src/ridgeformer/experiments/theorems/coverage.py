"""Which theorems cover which construction: how far f_t is from f*, and the compiled model from its solver.

Every combination that compiles is one of these constructions. One that is none of them has no theorem:
`construction_of` refuses it, and so a test fails for whoever adds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.compiler.catalogue import Entry
from ridgeformer.compiler.targets import Interpolated
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Construction:
    name: str
    converges: tuple[str, ...]
    """The statements on |f_t − f*|."""
    equals: tuple[str, ...]
    """The statements on |compiled − solver|."""
    norm: str
    """In which the method works."""


RATES = ("richardson", "chebyshev", "heavy-ball")
"""Of methods with fixed coefficients, with any diagonal preconditioner but the last."""
DUAL, FEATURES = "$A$", "$M = \\Phi^\\top\\Phi + \\lambda I$"

CONSTRUCTIONS = {
    construction.name: construction
    for construction in (
        Construction(
            "fixed coefficients, linear attention",
            RATES,
            ("compiled-model", "compiled-fixed"),
            DUAL,
        ),
        Construction(
            "fixed coefficients with Jacobi's preconditioner, linear attention",
            (*RATES[:2], "diagonal-preconditioners"),
            ("compiled-fixed", "inexact-fixed"),
            DUAL,
        ),
        Construction(
            "fixed coefficients in feature space, causal", RATES, ("compiled-fixed",), FEATURES
        ),
        Construction(
            "fixed coefficients at every prefix",
            RATES,
            ("compiled-fixed",),
            FEATURES + ", of the prefix",
        ),
        Construction(
            "conjugate gradients, linear attention",
            ("conjugate-gradients", "finite-termination"),
            ("compiled-cg", "inexact-scalars"),
            DUAL,
        ),
        Construction(
            "conjugate gradients with Jacobi's preconditioner, linear attention",
            ("conjugate-gradients", "diagonal-preconditioners"),
            ("compiled-cg", "inexact-scalars"),
            DUAL,
        ),
        Construction(
            "conjugate gradients in feature space, causal",
            ("feature-conjugate-gradients",),
            ("compiled-cg", "inexact-scalars"),
            FEATURES,
        ),
        Construction(
            "conjugate gradients at every prefix",
            ("feature-conjugate-gradients",),
            ("compiled-cg", "inexact-scalars"),
            FEATURES + ", of the prefix",
        ),
        Construction(
            "conjugate gradients with predicted curvatures, dual",
            ("conjugate-gradients",),
            ("compiled-cg", "inexact-scalars"),
            DUAL,
        ),
        Construction(
            "conjugate gradients with predicted curvatures, causal",
            ("feature-conjugate-gradients",),
            ("compiled-cg", "inexact-scalars"),
            FEATURES,
        ),
        Construction(
            "Newton's iteration in registers", ("newton",), ("newton", "compiled-fixed"), DUAL
        ),
        Construction(
            "GD++ in registers", ("gd-plus-plus",), ("gd-plus-plus", "compiled-fixed"), DUAL
        ),
        Construction(
            "fixed coefficients, softmax attention, exact products",
            RATES,
            ("compiled-fixed", "inexact-fixed"),
            DUAL,
        ),
        Construction(
            "fixed coefficients with row sums, softmax attention, exact products",
            ("row-sums", *RATES[:2]),
            ("normaliser", "compiled-fixed"),
            DUAL,
        ),
        Construction(
            "fixed coefficients, softmax attention, interpolated products",
            RATES,
            ("interpolated-products", "inexact-fixed"),
            DUAL,
        ),
        Construction(
            "fixed coefficients with row sums, softmax attention, interpolated products",
            ("row-sums", *RATES[:2]),
            ("interpolated-products",),
            DUAL,
        ),
        Construction(
            "fixed coefficients with row sums, softmax attention, products by digits",
            ("depth-and-width", "row-sums", *RATES[:2]),
            ("digit-products", "interpolated-products"),
            DUAL,
        ),
        Construction(
            "conjugate gradients, softmax attention, exact products",
            ("conjugate-gradients",),
            ("compiled-cg", "inexact-scalars"),
            DUAL,
        ),
        Construction(
            "conjugate gradients with row sums, softmax attention, exact products",
            ("conjugate-gradients", "row-sums"),
            ("compiled-cg", "inexact-scalars"),
            DUAL,
        ),
        Construction(
            "fixed coefficients, dot products from softmax heads",
            (*RATES, "diagonal-preconditioners"),
            ("dot-products", "inexact-fixed", "heads-fixed"),
            DUAL,
        ),
        Construction(
            "conjugate gradients, dot products from softmax heads",
            ("conjugate-gradients", "diagonal-preconditioners", "inexact-cg"),
            ("dot-products", "inexact-cg"),
            DUAL,
        ),
        Construction(
            "smoother, one softmax head",
            ("smoother-temperature",),
            ("compiled-fixed",),
            "none: it solves nothing, and has limits for $f^\\ast$",
        ),
        Construction(
            "smoother, one softmax head and a plain ReLU MLP",
            ("smoother-temperature",),
            ("interpolated-products", "compiled-fixed"),
            "none: it solves nothing, and has limits for $f^\\ast$",
        ),
    )
}

LOOPED = ("looped-models",)
"""For every construction that is looped, besides its own."""

SINGLE = {
    "round-off-fixed": "fixed coefficients with the linear kernel and linear attention in the dual space, a posteriori with Jacobi's preconditioner or as a loop of Chebyshev iteration",
    "round-off-cg": "conjugate gradients likewise",
    "compiled-cg": "every solver with softmax attention and exact products, a posteriori, in its (8)",
    "interpolated-products": "fixed coefficients with interpolated products, in its (iv), as part of an absolute certificate",
    "digit-products": "fixed coefficients with products by digits likewise",
    "inexact-cg": "conjugate gradients on dot products from softmax heads",
    "heads-fixed": "fixed coefficients on these, by the steps of the package",
}
"""What covers round-off, in float32 or float64, besides what is in real arithmetic, and where."""


def construction_of(entry: Entry) -> Construction:
    """The construction of a combination that compiles; one without theorems is refused."""
    name = name_of(entry)
    if name not in CONSTRUCTIONS:
        raise Refusal(
            f"No theorem covers {entry.label}: state how far it is from f* and from its solver, and name "
            "the statements in `experiments.theorems.coverage`."
        )
    return CONSTRUCTIONS[name]


def name_of(entry: Entry) -> str:
    method = METHODS.get(entry.solver.name, entry.solver.name)
    if method == "smoother":
        plain = ", one softmax head" + (" and a plain ReLU MLP" if entry.mlp == "relu" else "")
        return method + plain
    if method.startswith(("Newton", "GD++")):
        return method
    precondition = {
        "none": "",
        "jacobi": " with Jacobi's preconditioner",
        "row-sum": " with row sums",
    }[entry.solver.precondition]
    if entry.solver.name == "cg-predicted":
        return f"{method}, {'causal' if entry.causal else 'dual'}"
    if entry.attention == "softmax":
        if entry.kernel.logits() is None:
            return f"{method}, dot products from softmax heads"
        products = entry.target.products
        kind = "interpolated products" if isinstance(products, Interpolated) else "exact products"
        if isinstance(products, Interpolated) and products.digits:
            kind = "products by digits"
        return f"{method}{precondition}, softmax attention, {kind}"
    if entry.every_prefix:
        return f"{method} at every prefix"
    if entry.causal:
        return f"{method} in feature space, causal"
    return f"{method}{precondition}, linear attention"


METHODS = {
    "gd": "fixed coefficients",
    "richardson": "fixed coefficients",
    "heavy-ball": "fixed coefficients",
    "chebyshev": "fixed coefficients",
    "cg": "conjugate gradients",
    "cg-predicted": "conjugate gradients with predicted curvatures",
    "newton": "Newton's iteration in registers",
    "gd++": "GD++ in registers",
    "nadaraya-watson": "smoother",
}
"""What kind of method each solver is."""


def coverage() -> str:
    """The table of docs/theorems.md; `@name` stands for the number of a theorem."""
    lines = [
        "Every combination in [compiles.md](compiles.md) is one of these constructions; a test tries them all. Looped",
        "models have in addition "
        + joined(LOOPED)
        + ". The table is for real arithmetic. Round-off, in float32 above all, is covered by",
        "; ".join(f"@{name} for {where}" for name, where in SINGLE.items()) + ".",
        "For the other constructions what certificates promise for round-off is measured, not proved.",
        "",
        "| construction | distance from $f^\\ast$ | distance from the solver | norm |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {c.name} | {joined(c.converges)} | {joined(c.equals)} | {c.norm} |"
        for c in CONSTRUCTIONS.values()
    ]
    return "\n".join(lines)


def joined(names: tuple[str, ...]) -> str:
    return ", ".join(f"@{name}" for name in names)
