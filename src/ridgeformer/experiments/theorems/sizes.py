"""Sizes of compiled models against the formulas, for everything that compiles."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.catalogue import (
    KERNELS_TRIED,
    MAX_NORM,
    MAX_SUPPORTS,
    MAX_TARGET,
    RIDGE,
    TOLERANCE,
    Entry,
    compiled_entries,
)
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.multiply import Grid
from ridgeformer.compiler.relu_plan import choose_grid, error_budget
from ridgeformer.compiler.request import Request
from ridgeformer.compiler.softmax_plan import softmax_program
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem
from ridgeformer.kernels import Polynomial
from ridgeformer.solvers import make_solver
from ridgeformer.theory import Construction, parameters, predicted_shape
from ridgeformer.types import Refusal

MAIN = (
    Entry("cg", "none", "linear", "linear", "relu", False),
    Entry("cg", "none", "linear", "linear", "relu", True),
    Entry("cg", "none", "exponential", "softmax", "reglu", False),
    Entry("chebyshev", "none", "linear", "linear", "relu", False),
    Entry("chebyshev", "row-sum", "gaussian", "softmax", "reglu", False),
    Entry("richardson", "row-sum", "gaussian", "softmax", "relu", False),
)
"""Drawn in the figure, and measured in fast mode."""

ALSO_FAST = (
    Entry("heavy-ball", "none", "linear", "linear", "reglu", True),
    Entry("richardson", "jacobi", "polynomial, degree 3", "linear", "reglu", False),
    Entry("cg", "jacobi", "polynomial, degree 2", "linear", "reglu", False),
    Entry("gd", "none", "linear", "softmax", "reglu", False),
    Entry("gd", "none", "exponential", "softmax", "relu", False),
    Entry("chebyshev", "none", "gaussian", "softmax", "reglu", False),
    Entry("nadaraya-watson", "none", "gaussian", "softmax", "relu", False),
)


class Sizes(Theorem):
    name = "sizes"
    title = "Layers, channels, heads, neurons and parameters are what the formulas say"
    statement = (
        "CG with linear attention takes 7T + 1 layers, p + 10r + 3 channels, 5r heads and per step one "
        "mat-vec head for all r outputs; Chebyshev takes T + 1 layers, p + 4r + 3 channels and one head; "
        "behind softmax CG takes 10T + 6 layers and p + 16r + 8 channels. Such a formula holds for each "
        "construction that compiles, also for its head width, its neurons (given the knots of its tables "
        "and, where products are interpolated, their grid) and its parameters. Every count is exact, "
        "from 3 to 7 steps on; shorter programs may be narrower."
    )
    see = (
        "Parameters of compiled models (markers) on the formula (dotted): every ratio is exactly 1."
    )
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        cases = [(3, 1, 0), (4, 2, 1)] if fast else [(2, 3, 0), (4, 1, 1), (5, 2, 2)]
        entries = [*MAIN, *ALSO_FAST] if fast else compiled_entries()
        found: list[float] = []
        for entry in entries:
            for features, outputs, later in cases:
                steps = least_steps(entry) + (later if entry.solver != "nadaraya-watson" else 0)
                found += compared(entry, features, outputs, steps)
        drawn = (7, 9) if fast else (7, 10, 14)
        lines = []
        for entry in MAIN:
            wanted, counted = zip(*(parameters_of(entry, 4, 1, t) for t in drawn), strict=True)
            found += [ratio for pair in zip(counted, wanted, strict=True) for ratio in same(*pair)]
            lines.append(Line(entry.label, drawn, counted))
            lines.append(Line(f"{entry.label}, formula", drawn, wanted, bound=True))
        settings = f"{len(entries)} constructions, {len(cases)} sizes of each"
        return Outcome(settings, np.array(found), lines, Axes("steps T", "parameters"))


def compared(entry: Entry, features: int, outputs: int, steps: int) -> list[float]:
    """Counted over predicted: shape, parameters, and for CG with linear attention its mat-vecs."""
    model = compiled(entry, features, outputs, steps)
    shape = predicted_shape(construction_of(entry, features, outputs, steps))
    config = model.transformer.config
    found = [
        ratio
        for name, predicted in asdict(shape).items()
        for ratio in same(getattr(config, name), predicted)
    ]
    inputs, gated = features + outputs + 3, entry.mlp == "reglu"
    predicted = parameters(shape, inputs=inputs, outputs=outputs, gated=gated)
    found += same(count_parameters(model), predicted)
    if (entry.solver, entry.attention, entry.causal) == ("cg", "linear", False):
        widths = matvec_widths(model)
        found += same(len(widths), steps)
        found += [ratio for width in widths for ratio in same(width, outputs)]
    return found


def parameters_of(entry: Entry, features: int, outputs: int, steps: int) -> tuple[int, int]:
    """Predicted and counted."""
    shape = predicted_shape(construction_of(entry, features, outputs, steps))
    inputs, gated = features + outputs + 3, entry.mlp == "reglu"
    predicted = parameters(shape, inputs=inputs, outputs=outputs, gated=gated)
    return predicted, count_parameters(compiled(entry, features, outputs, steps))


def compiled(entry: Entry, features: int, outputs: int, steps: int) -> CompiledModel:
    return entry.compile(features=features, outputs=outputs, steps=steps)


def count_parameters(model: CompiledModel) -> int:
    return sum(weight.numel() for weight in model.transformer.parameters())


def matvec_widths(model: CompiledModel) -> list[int]:
    """How many outputs each mat-vec head writes."""
    heads = [head for layer in model.sites["layers"] for head in layer["attention"]]
    return [len(head["writes"]) for head in heads if head["does"].startswith("K")]


def same(counted: int, predicted: int) -> list[float]:
    """The larger over the smaller: 1 if they agree, more than 1 if they do not."""
    return [max(counted / predicted, predicted / counted)]


def least_steps(entry: Entry) -> int:
    """The fewest steps for which the formula is stated."""
    for steps in range(1, 20):
        try:
            predicted_shape(construction_of(entry, 2, 1, steps))
        except Refusal:
            continue
        return steps
    raise AssertionError(f"no size is stated for {entry.label}")


def construction_of(entry: Entry, features: int, outputs: int, steps: int) -> Construction:
    """What the formulas need to know of a combination, in the domain in which it is tried."""
    kernel = KERNELS_TRIED[entry.kernel]
    domain = Domain(kernel, MAX_NORM, MAX_SUPPORTS, MAX_TARGET)
    grid = Grid(0, 0)
    if (entry.attention, entry.mlp) == ("softmax", "relu") and entry.solver != "nadaraya-watson":
        grid = grid_of(entry, domain, features, outputs, steps)
    return Construction(
        solver=entry.solver,
        precondition=entry.precondition,
        kernel=kernel.name,
        attention=entry.attention,
        mlp=entry.mlp,
        causal=entry.causal,
        features=features,
        outputs=outputs,
        steps=steps,
        degree=kernel.degree if isinstance(kernel, Polynomial) else 0,
        ridge=RIDGE,
        max_eigenvalue=domain.max_eigenvalue,
        max_supports=MAX_SUPPORTS,
        row_sums=domain.row_sums,
        intervals=grid.intervals,
        square_layers=grid.layers,
    )


def grid_of(entry: Entry, domain: Domain, features: int, outputs: int, steps: int) -> Grid:
    """n and g: the coarsest interpolation of a step's products that keeps the tolerance."""
    solver = make_solver(entry.solver, entry.precondition)
    request = Request(
        solver=solver, features=features, steps=steps, ridge=RIDGE, outputs=outputs,
        kernel=domain.kernel, attention="softmax", mlp="relu", dtype="float64", causal=False,
        max_eigenvalue=None, max_norm=MAX_NORM, max_supports=MAX_SUPPORTS, max_target=MAX_TARGET,
        mlp_width=None, tolerance=TOLERANCE, interval=None, heads=None, epsilon=None,
    )  # fmt: skip
    return choose_grid(request, error_budget(request, domain, softmax_program(request, domain)))
