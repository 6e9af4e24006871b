"""Tasks, one per file: distributions over prompts."""

from ridgeformer.tasks.base import Prompt, Task, write_arrays
from ridgeformer.tasks.kernel_draw import KernelDraw
from ridgeformer.tasks.spectrum import PrescribedSpectrum

TASKS: dict[str, type[Task]] = {task.name: task for task in (PrescribedSpectrum, KernelDraw)}

__all__ = ["TASKS", "KernelDraw", "PrescribedSpectrum", "Prompt", "Task", "write_arrays"]
