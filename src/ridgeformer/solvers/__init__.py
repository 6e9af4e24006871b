"""Solvers, one per file. The suites run over `SOLVERS`, so an export here is all a new one needs."""
# mypy: implicit-reexport

from dataclasses import fields, is_dataclass
from typing import get_args

from ridgeformer.registry import register
from ridgeformer.solvers.base import Solver, check_solver, solve
from ridgeformer.solvers.block_cg import BlockCG
from ridgeformer.solvers.chebyshev import Chebyshev
from ridgeformer.solvers.conjugate_gradient import ConjugateGradient
from ridgeformer.solvers.gradient_descent_plus import GradientDescentPlus
from ridgeformer.solvers.heavy_ball import HeavyBall
from ridgeformer.solvers.machine import EagerMachine, Machine, Precondition, certified_interval
from ridgeformer.solvers.nadaraya_watson import NadarayaWatson
from ridgeformer.solvers.newton import IterativeNewton
from ridgeformer.solvers.oracle import (
    condition_number,
    effective_dimension,
    kernel_eigenvalues,
    krr,
    krr_coefficients,
)
from ridgeformer.solvers.predicted_cg import PredictedCG
from ridgeformer.solvers.richardson import GradientDescent, Richardson
from ridgeformer.solvers.ridge import check_ridge
from ridgeformer.types import Refusal

PRECONDITIONERS: tuple[str, ...] = get_args(Precondition)

SOLVERS = Solver.registry
"""Every solver by its name; `register` adds the user's own."""

for _solver in (
    GradientDescent,
    Richardson,
    HeavyBall,
    Chebyshev,
    ConjugateGradient,
    PredictedCG,
    IterativeNewton,
    GradientDescentPlus,
    BlockCG,
    NadarayaWatson,
):
    register(_solver)


def make_solver(
    name: str,
    precondition: str | None = None,
    interval: tuple[float, float] | None = None,
    **options: object,
) -> Solver:
    """The solver of that name with those options, its own where they are left out; an option that it
    does not take is refused."""
    solver = SOLVERS.find(name)
    precondition = solver.precondition if precondition is None else precondition
    if precondition not in PRECONDITIONERS:
        raise Refusal(
            f"There is no preconditioner {precondition!r}: choose from {', '.join(PRECONDITIONERS)}."
        )
    if precondition not in solver.preconditioners:
        taking = [s.name for s in SOLVERS.values() if precondition in s.preconditioners]
        raise Refusal(
            f"{name} does not take the {precondition} preconditioner: {', '.join(taking)} do."
        )
    if precondition != solver.precondition:
        options["precondition"] = precondition
    if interval is not None:
        if not is_dataclass(solver) or "interval" not in {field.name for field in fields(solver)}:
            raise Refusal(
                f"`interval` tunes fixed coefficients, and {name} has none: leave it out."
            )
        options["interval"] = tuple(interval)
    return solver(**options)
