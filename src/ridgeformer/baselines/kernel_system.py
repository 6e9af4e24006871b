"""The kernel in which baselines work: the task's own, or one that was fitted to its prompts."""

from __future__ import annotations

from ridgeformer.baselines.gaussian_process import GaussianProcessPosterior
from ridgeformer.tasks import LearnableTask
from ridgeformer.tasks.gaussian_process import covariance_kernel
from ridgeformer.tasks.learnable import KernelSystem


def kernel_system_of(task: LearnableTask, seed: int) -> KernelSystem:
    """The task's own kernel and λ, with which ridge regression is the best predictor.

    A task that has none gets the covariance and the noise that make training prompts most likely.
    """
    own = task.kernel_system()
    if own is not None:
        return own
    posterior = GaussianProcessPosterior().fit(task, seed)
    scales = posterior.learned(posterior.scales)
    kernel = covariance_kernel(posterior.smoothness, scales.lengthscale)
    return KernelSystem(kernel, scales.noise_variance / scales.variance)
