"""Solvers, one per file. The suites run over `SOLVERS`, so an export here is all a new one needs."""

from ridgeformer.solvers.base import Solver, solve
from ridgeformer.solvers.block_cg import BlockCG
from ridgeformer.solvers.chebyshev import Chebyshev
from ridgeformer.solvers.conjugate_gradient import ConjugateGradient
from ridgeformer.solvers.heavy_ball import HeavyBall
from ridgeformer.solvers.machine import EagerMachine, Machine, certified_interval
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

__all__ = [
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
    "solve",
]
