"""Everything that compiles: each combination tried, with its size and its promise.

The conformance suite runs over these entries, and docs/compiles.md is written from them, so neither
can fall behind the compiler. `python -m ridgeformer.compiler.catalogue` writes the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, Literal

from ridgeformer.compiler.compile import compile, size_report
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.kernels import Exponential, Gaussian, Kernel, Linear, Polynomial
from ridgeformer.solvers import PRECONDITIONERS, SOLVERS, make_solver
from ridgeformer.types import Refusal

KERNELS_TRIED: dict[str, Kernel] = {
    "linear": Linear(),
    "exponential": Exponential(1.0),
    "gaussian": Gaussian(1.0),
    "polynomial, degree 2": Polynomial(2),
    "polynomial, degree 3": Polynomial(3),
}
RIDGE, MAX_NORM, MAX_SUPPORTS, MAX_TARGET, TOLERANCE = 1.0, 1.0, 16, 2.0, 1e-2
"""The domain in which every combination is tried."""

FEATURES = 4
HEADER = ("solver", "precondition", "kernel", "attention", "MLP", "layers", "d_model", "heads")


@dataclass(frozen=True)
class Entry:
    solver: str
    precondition: str
    kernel: str
    attention: str
    mlp: str
    causal: bool

    @property
    def label(self) -> str:
        causal = " causal" if self.causal else ""
        return " ".join((self.solver, self.precondition, self.kernel, self.attention, self.mlp)) + (
            causal
        )

    def options(self, steps: int = 4) -> dict[str, Any]:
        """The keywords of `compile`, with the domain in which the combination is tried."""
        chosen: dict[str, Any] = {
            "kernel": KERNELS_TRIED[self.kernel],
            "attention": self.attention,
            "mlp": self.mlp,
            "causal": self.causal,
        }
        if SOLVERS[self.solver].smooths:
            return chosen | ({"max_norm": MAX_NORM} if self.attention == "softmax" else {})
        chosen |= {"steps": steps, "ridge": RIDGE}
        if self.attention == "linear":
            top = MAX_SUPPORTS * KERNELS_TRIED[self.kernel].range(MAX_NORM).most
            return chosen | {"max_eigenvalue": top}
        chosen |= {"max_norm": MAX_NORM, "max_supports": MAX_SUPPORTS}
        if self.mlp == "relu":
            chosen |= {"max_target": MAX_TARGET, "tolerance": TOLERANCE}
        return chosen

    def compile(
        self,
        *,
        features: int = FEATURES,
        outputs: int = 1,
        steps: int = 4,
        dtype: Literal["float64", "float32"] = "float64",
    ) -> CompiledModel:
        solver = make_solver(self.solver, self.precondition)
        options = self.options(steps)
        return compile(solver, features=features, outputs=outputs, dtype=dtype, **options)


@dataclass(frozen=True)
class Attempt:
    entry: Entry
    model: CompiledModel | None
    reason: str = field(default="")
    """Why it does not compile."""


@cache
def attempts() -> tuple[Attempt, ...]:
    return tuple(map(attempt, every_entry()))


def every_entry() -> Iterator[Entry]:
    for solver, precondition, kernel, attention, mlp, causal in product(
        SOLVERS,
        PRECONDITIONERS,
        KERNELS_TRIED,
        ("linear", "softmax"),
        ("relu", "reglu"),
        (False, True),
    ):
        yield Entry(solver, precondition, kernel, attention, mlp, causal)


def attempt(entry: Entry) -> Attempt:
    try:
        return Attempt(entry, entry.compile())
    except Refusal as refusal:
        return Attempt(entry, None, str(refusal))


def compiled_entries() -> list[Entry]:
    return [found.entry for found in attempts() if found.model is not None]


def layers_law(entry: Entry) -> str:
    """Layers as a function of the number T of steps."""
    if SOLVERS[entry.solver].smooths:
        return str(entry.compile().transformer.config.n_layers)
    few, many = (entry.compile(steps=t).transformer.config.n_layers for t in (8, 12))
    slope = (many - few) // 4
    constant = few - 8 * slope
    return f"{slope if slope != 1 else ''}T + {constant}"


def promise(model: CompiledModel) -> str:
    certificate = model.certificate
    if certificate.absolute_error is not None:
        return f"{certificate.absolute_error:.1e} absolute"
    return f"{certificate.relative_error:.0e} relative"


def row(found: Attempt) -> list[str]:
    assert found.model is not None
    entry, size = found.entry, size_report(found.model)
    return [
        f"`{entry.solver}`",
        entry.precondition if entry.precondition != "none" else "",
        entry.kernel,
        entry.attention + (", causal" if entry.causal else ""),
        entry.mlp,
        layers_law(entry),
        str(size["d_model"]),
        str(size["heads"]),
        str(size["d_mlp"]),
        promise(found.model),
    ]


def document() -> str:
    """docs/compiles.md"""
    header = [*HEADER, "d_mlp", "certified error"]
    lines = [
        "# What compiles",
        "",
        "Written by `python -m ridgeformer.compiler.catalogue`, which tries every combination; a test",
        "compares this page with the compiler. T is the number of steps; sizes are for "
        f"p = {FEATURES} features,",
        f"one output, λ = {RIDGE:g}, |φ| ≤ {MAX_NORM:g}, k ≤ {MAX_SUPPORTS}, |y| ≤ {MAX_TARGET:g}, "
        f"τ = ℓ = 1, and `--tolerance {TOLERANCE:g}` where a plain ReLU",
        "MLP interpolates products. Relative errors are relative to the largest prediction, or 100 times",
        "the solver's own round-off where that is larger.",
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
    ]
    rows = [row(found) for found in attempts() if found.model is not None]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows]
    reasons: dict[str, int] = {}
    for found in attempts():
        if found.model is None:
            reasons[found.reason] = reasons.get(found.reason, 0) + 1
    lines += ["", "## What does not, and why", ""]
    lines += [f"- {reason} ({count} combinations)" for reason, count in reasons.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from pathlib import Path

    Path("docs/compiles.md").write_text(document())
