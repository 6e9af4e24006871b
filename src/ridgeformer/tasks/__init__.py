"""Tasks, one per file: distributions over prompts."""

from ridgeformer.tasks.base import Prompt, Task, write_arrays
from ridgeformer.tasks.gaussian_process import GaussianProcess
from ridgeformer.tasks.heteroskedastic import Heteroskedastic
from ridgeformer.tasks.kernel_draw import KernelDraw
from ridgeformer.tasks.learnable import LearnableTask, Sample, generator_of
from ridgeformer.tasks.linear_regression import LinearRegression
from ridgeformer.tasks.logistic import LogisticRegression
from ridgeformer.tasks.mixture import MixtureOfRegressions
from ridgeformer.tasks.poisson import PoissonRegression
from ridgeformer.tasks.polynomial import PolynomialRegression
from ridgeformer.tasks.relu_network import ReLUNetwork
from ridgeformer.tasks.sparse_regression import SparseRegression
from ridgeformer.tasks.spectrum import PrescribedSpectrum

LEARNABLE: dict[str, type[LearnableTask]] = {
    task.name: task
    for task in (
        LinearRegression,
        GaussianProcess,
        SparseRegression,
        PolynomialRegression,
        Heteroskedastic,
        MixtureOfRegressions,
        LogisticRegression,
        PoissonRegression,
        ReLUNetwork,
    )
}
"""Those that know their best predictor, and that transformers are trained on."""

TASKS: dict[str, type[Task]] = {
    **{task.name: task for task in (PrescribedSpectrum, KernelDraw)},
    **LEARNABLE,
}

__all__ = [
    "LEARNABLE",
    "TASKS",
    "GaussianProcess",
    "Heteroskedastic",
    "KernelDraw",
    "LearnableTask",
    "LinearRegression",
    "LogisticRegression",
    "MixtureOfRegressions",
    "PoissonRegression",
    "PolynomialRegression",
    "PrescribedSpectrum",
    "Prompt",
    "ReLUNetwork",
    "Sample",
    "SparseRegression",
    "Task",
    "generator_of",
    "write_arrays",
]
