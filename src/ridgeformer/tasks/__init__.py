"""Tasks, one per file: distributions over prompts."""

from ridgeformer.tasks.base import Prompt, Task, write_arrays
from ridgeformer.tasks.gaussian_process import GaussianProcess
from ridgeformer.tasks.kernel_draw import KernelDraw
from ridgeformer.tasks.learnable import LearnableTask, Sample
from ridgeformer.tasks.linear_regression import LinearRegression
from ridgeformer.tasks.spectrum import PrescribedSpectrum

LEARNABLE: dict[str, type[LearnableTask]] = {
    task.name: task for task in (LinearRegression, GaussianProcess)
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
    "KernelDraw",
    "LearnableTask",
    "LinearRegression",
    "PrescribedSpectrum",
    "Prompt",
    "Sample",
    "Task",
    "write_arrays",
]
