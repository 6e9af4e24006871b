"""Solvers, one per file. The suites run over `SOLVERS`, so an export here is all a new one needs."""

from difflib import get_close_matches
from typing import get_args

from ridgeformer.solvers.base import Solver, solve
from ridgeformer.solvers.block_cg import BlockCG
from ridgeformer.solvers.chebyshev import Chebyshev
from ridgeformer.solvers.conjugate_gradient import ConjugateGradient
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
from ridgeformer.solvers.richardson import GradientDescent, Richardson
from ridgeformer.types import Refusal

PRECONDITIONERS: tuple[str, ...] = get_args(Precondition)

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        GradientDescent,
        Richardson,
        HeavyBall,
        Chebyshev,
        ConjugateGradient,
        IterativeNewton,
        BlockCG,
        NadarayaWatson,
    )
}


def make_solver(name: str, precondition: str = "none") -> Solver:
    """The solver of that name; an impossible request is refused with the nearest possible one."""
    if name not in SOLVERS:
        near = get_close_matches(name, SOLVERS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(SOLVERS)}."
        raise Refusal(f"There is no solver {name!r}: {hint}")
    if precondition not in PRECONDITIONERS:
        raise Refusal(
            f"There is no preconditioner {precondition!r}: choose from {', '.join(PRECONDITIONERS)}."
        )
    if precondition == "none":
        return SOLVERS[name]()
    if name not in ("richardson", "chebyshev", "cg"):
        raise Refusal(
            f"{name} does not take the {precondition} preconditioner: the nearest is richardson."
        )
    return SOLVERS[name](precondition=precondition)  # type: ignore[call-arg]


__all__ = [
    "PRECONDITIONERS",
    "SOLVERS",
    "BlockCG",
    "Chebyshev",
    "ConjugateGradient",
    "EagerMachine",
    "GradientDescent",
    "HeavyBall",
    "IterativeNewton",
    "Machine",
    "NadarayaWatson",
    "Richardson",
    "Solver",
    "certified_interval",
    "condition_number",
    "effective_dimension",
    "kernel_eigenvalues",
    "krr",
    "krr_coefficients",
    "make_solver",
    "solve",
]
