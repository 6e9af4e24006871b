"""Kernels, one per file. The suites run over `KERNELS`, so an export here is all a new one needs."""

from ridgeformer.kernels.base import Kernel
from ridgeformer.kernels.exponential import Exponential
from ridgeformer.kernels.gaussian import Gaussian
from ridgeformer.kernels.linear import Linear
from ridgeformer.kernels.polynomial import Polynomial

KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Linear, Exponential, Gaussian, Polynomial)
}

__all__ = ["KERNELS", "Exponential", "Gaussian", "Kernel", "Linear", "Polynomial"]
