"""Everything that compiles: each combination of registered members, with its size and its promise.

The conformance suite runs over these entries, and docs/compiles.md is written from them, so neither
can fall behind the compiler. `python -m ridgeformer.compiler.catalogue` writes the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.head_table import head_table
from ridgeformer.compiler.size import size_report
from ridgeformer.compiler.targets import (
    Exact,
    HeadPairs,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
    Target,
)
from ridgeformer.kernels import KERNELS, Kernel
from ridgeformer.solvers import SOLVERS, Solver, make_solver
from ridgeformer.types import Refusal

RIDGE, MAX_NORM, MAX_SUPPORTS, MAX_TARGET, TOLERANCE = 1.0, 1.0, 16, 2.0, 1e-2
"""The domain in which every combination is tried."""

FEATURES = 4
HEADER = (
    "solver", "precondition", "kernel", "attention", "MLP", "layers", "d_model", "heads", "d_mlp",
    "certified error", "looped",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Entry:
    """A combination of solver, kernel and target."""

    solver: Solver
    kernel: Kernel
    target: Target
    looped: bool = False

    @property
    def attention(self) -> Literal["linear", "softmax"]:
        return "linear" if isinstance(self.target, LinearAttention) else "softmax"

    @property
    def causal(self) -> bool:
        return isinstance(self.target, LinearAttention) and self.target.causal

    @property
    def every_prefix(self) -> bool:
        return isinstance(self.target, LinearAttention) and self.target.every_prefix

    @property
    def mlp(self) -> Literal["relu", "reglu"]:
        return "reglu" if isinstance(self.target.products, Exact) else "relu"

    @property
    def digits(self) -> bool:
        products = self.target.products
        return isinstance(products, Interpolated) and products.digits

    @property
    def label(self) -> str:
        words = [
            self.solver.name, self.solver.precondition, self.kernel.label, self.attention, self.mlp,
        ]  # fmt: skip
        words += ["causal"] * self.causal + ["every-prefix"] * self.every_prefix
        words += ["digits"] * self.digits
        return " ".join([*words, *["looped"] * self.looped])

    def compile(
        self,
        *,
        features: int = FEATURES,
        outputs: int = 1,
        steps: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        promised: bool = True,
    ) -> CompiledModel:
        """The model; if not `promised`, also one whose error cannot be bounded."""
        smooths = self.solver.smooths
        if steps is None:
            steps = 200 if self.looped else 4
        return compile(
            self.solver,
            features=features,
            outputs=outputs,
            steps=1 if smooths else steps,
            ridge=None if smooths else RIDGE,
            kernel=self.kernel,
            dtype=dtype,
            to=self.target if promised else without_promise(self.target, self.kernel),
            looped=self.looped,
        )


def without_promise(target: Target, kernel: Kernel) -> Target:
    """The target with a scale of its own where softmax heads make dot products, which refuses no step."""
    if isinstance(target, LinearAttention) or kernel.logits() is not None:
        return target
    return replace(target, dot_products=HeadPairs(epsilon=0.01 / kernel.range(MAX_NORM).most))


@dataclass(frozen=True)
class Attempt:
    entry: Entry
    model: CompiledModel | None
    reason: str = ""
    """Why it does not compile."""


def targets(solver: Solver, kernel: Kernel) -> Iterator[Target]:
    """Every kind of target, with the domain in which it is tried."""
    try:
        top = MAX_SUPPORTS * kernel.range(MAX_NORM).most
    except Refusal:  # a kernel that says nothing about its values is refused by the compiler
        top = float(MAX_SUPPORTS)
    for causal in (False, True):
        for products in (None, Exact()):
            yield LinearAttention(top, products, causal)
    yield LinearAttention(top, Exact(), causal=True, every_prefix=True)
    if solver.smooths:
        yield SoftmaxAttention(MAX_NORM, products=None)
        yield SoftmaxAttention(MAX_NORM)
        return
    interpolated = Interpolated(MAX_TARGET, tolerance=TOLERANCE)
    yield SoftmaxAttention(MAX_NORM, MAX_SUPPORTS, interpolated)
    if solver.precondition == "row-sum":
        yield SoftmaxAttention(MAX_NORM, MAX_SUPPORTS, replace(interpolated, digits=True))
    yield SoftmaxAttention(MAX_NORM, MAX_SUPPORTS)


def entries() -> Iterator[Entry]:
    """Every combination of what is registered at the moment."""
    for name, kind in SOLVERS.items():
        for precondition in kind.preconditioners:
            solver = make_solver(name, precondition)
            for kernels in KERNELS.values():
                for kernel in kernels.examples():
                    for target in targets(solver, kernel):
                        yield Entry(solver, kernel, target)


def attempt(entry: Entry) -> Attempt:
    try:
        return Attempt(entry, entry.compile())
    except Refusal as refusal:
        return Attempt(entry, None, str(refusal))


def attempts() -> tuple[Attempt, ...]:
    return attempts_with(tuple(SOLVERS), tuple(KERNELS))


@cache
def attempts_with(solvers: tuple[str, ...], kernels: tuple[str, ...]) -> tuple[Attempt, ...]:
    """The names in the registries are the key of the cache, so that a new member is tried."""
    return tuple(map(attempt, entries()))


def looped_attempts() -> dict[Entry, Attempt]:
    """Everything that compiles, compiled as a loop; by the entry that is not one."""
    return looped_attempts_with(tuple(SOLVERS), tuple(KERNELS))


@cache
def looped_attempts_with(
    solvers: tuple[str, ...], kernels: tuple[str, ...]
) -> dict[Entry, Attempt]:
    return {
        tried.entry: attempt(replace(tried.entry, looped=True))
        for tried in attempts_with(solvers, kernels)
        if tried.model is not None
    }


def compiled_entries() -> list[Entry]:
    return [tried.entry for tried in attempts() if tried.model is not None]


def entry(label: str) -> Entry:
    """The combination with the given label, which names its solver, kernel and target."""
    for known in entries():
        if known.label == label:
            return known
    raise Refusal(f"There is no combination {label!r} in the catalogue.")


def layers_law(entry: Entry) -> str:
    """The number of layers as a function of the number T of steps."""
    if entry.solver.smooths:
        return str(entry.compile().transformer.config.n_layers)
    few, many = (
        entry.compile(steps=t, promised=False).transformer.config.n_layers for t in (8, 12)
    )
    slope = (many - few) // 4
    constant = few - 8 * slope
    return f"{slope if slope != 1 else ''}T" + (f" + {constant}" if constant else "")


def promise(model: CompiledModel) -> str:
    certificate = model.certificate
    if certificate.absolute_error is not None:
        return f"{certificate.absolute_error:.1e} absolute"
    return f"{certificate.relative_error:.0e} relative"


def loop(tried: Attempt) -> str:
    """The layers of one step, and all layers of a looped model."""
    if tried.model is None:
        return ""
    config = tried.model.transformer.config
    assert config.loop is not None
    return f"{config.loop[1] - config.loop[0]} of {config.n_layers}"


def row(entry: Entry, model: CompiledModel) -> list[str]:
    size, precondition = size_report(model), entry.solver.precondition
    return [
        f"`{entry.solver.name}`",
        precondition if precondition != "none" else "",
        entry.kernel.label,
        entry.attention + ", causal" * entry.causal + ", every prefix" * entry.every_prefix,
        entry.mlp + ", digits" * entry.digits,
        layers_law(entry),
        *(str(size[name]) for name in ("d_model", "heads", "d_mlp")),
        promise(model),
        loop(looped_attempts()[entry]),
    ]


def document() -> str:
    """The text of docs/compiles.md."""
    lines = [
        "# What compiles",
        "",
        "`make docs` writes this page: it tries every combination of registered solvers, kernels and",
        "targets, and a test compares the page with the compiler. T is the number of steps. Sizes are for "
        f"p = {FEATURES}",
        f"features, one output, λ = {RIDGE:g}, |φ| ≤ {MAX_NORM:g}, k ≤ {MAX_SUPPORTS}, "
        f"|y| ≤ {MAX_TARGET:g}, τ = ℓ = 1, and the tolerance {TOLERANCE:g} where a plain",
        "ReLU MLP interpolates products, or multiplies by the digits of 1/D. Relative errors are relative to",
        "the largest prediction, or 100 times the solver's own round-off where that is larger;",
        "[the format](format.md) defines that round-off, and says what else dot products from softmax heads",
        "refer to. The last column is for models that hold one step in a loop: so many layers are repeated,",
        "of so many in the file.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "|" + "---|" * len(HEADER),
    ]
    tried = attempts()
    rows = [row(a.entry, a.model) for a in tried if a.model is not None]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows]
    reasons: dict[str, int] = {}
    for each in (*tried, *looped_attempts().values()):
        if each.model is None:
            reasons[each.reason] = reasons.get(each.reason, 0) + 1
    lines += ["", *head_table(), "## What does not, and why", ""]
    lines += [f"- {reason} ({count} combinations)" for reason, count in reasons.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from pathlib import Path

    Path("docs/compiles.md").write_text(document())
