"""Baselines, one per file. The suites run over `BASELINES`, so that a new one inherits every test."""
# mypy: implicit-reexport

from ridgeformer.baselines.adapter import Adapter
from ridgeformer.baselines.base import Baseline
from ridgeformer.baselines.functional_descent import FixedFunctionalSteps, TunedFunctionalSteps
from ridgeformer.baselines.gaussian_process import GaussianProcessPosterior
from ridgeformer.baselines.gradient_descent import FixedSteps
from ridgeformer.baselines.kernel_ridge import KernelRidge
from ridgeformer.baselines.lasso import Lasso
from ridgeformer.baselines.learned_functional_steps import LearnedFunctionalSteps
from ridgeformer.baselines.learned_steps import LearnedSteps
from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.baselines.nadaraya_watson import Smoother
from ridgeformer.baselines.nearest_neighbours import NearestNeighbours
from ridgeformer.baselines.preconditioned import LearnedPreconditioners
from ridgeformer.baselines.preconditioned_richardson import PreconditionedRichardson
from ridgeformer.baselines.ridge import Ridge
from ridgeformer.registry import register

BASELINES = Baseline.registry
"""Every baseline by its name; `register` adds the user's own."""

for _baseline in (
    LeastSquares,
    Ridge,
    GaussianProcessPosterior,
    Lasso,
    NearestNeighbours,
    Smoother,
    FixedSteps,
    LearnedSteps,
    LearnedPreconditioners,
    FixedFunctionalSteps,
    TunedFunctionalSteps,
    LearnedFunctionalSteps,
    PreconditionedRichardson,
    KernelRidge,
    Adapter,
):
    register(_baseline)
