"""Tasks, one per file: distributions over prompts. The suites run over `TASKS` and `LEARNABLE`."""
# mypy: implicit-reexport

from ridgeformer.registry import Registry, register
from ridgeformer.tasks.arrays import read_npy, write_arrays
from ridgeformer.tasks.base import LARGEST, Prompt, Task, check_prompt
from ridgeformer.tasks.gaussian_law import GaussianLaw
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

TASKS: Registry[type[Task]] = Task.registry
"""Every task by its name; `register` adds the user's own."""

LEARNABLE = LearnableTask.registry
"""The tasks among them that transformers are trained on, since they know their best predictor."""

for _task in (
    PrescribedSpectrum,
    KernelDraw,
    LinearRegression,
    GaussianProcess,
    SparseRegression,
    PolynomialRegression,
    Heteroskedastic,
    MixtureOfRegressions,
    LogisticRegression,
    PoissonRegression,
    ReLUNetwork,
):
    register(_task)
