"""Kernels, one per file. The suites run over `KERNELS`, so an export here is all a new one needs."""

from typing import Any

import torch

from ridgeformer.kernels.base import Kernel, Range
from ridgeformer.kernels.exponential import Exponential
from ridgeformer.kernels.gaussian import Gaussian
from ridgeformer.kernels.linear import Linear
from ridgeformer.kernels.polynomial import Polynomial
from ridgeformer.kernels.projected import Projected
from ridgeformer.types import Refusal

KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Linear, Exponential, Gaussian, Polynomial)
}


def kernel_from(values: dict[str, Any]) -> Kernel:
    """The kernel that `to_dict` described; `name` says which."""
    options = dict(values)
    name = options.pop("name", None)
    if name not in KERNELS:
        raise Refusal(f"There is no kernel {name!r}: choose from {', '.join(KERNELS)}.")
    if options.get("projection") is not None:
        options["projection"] = torch.tensor(options["projection"], dtype=torch.float64)
    return KERNELS[name](**options)


__all__ = [
    "KERNELS",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Linear",
    "Polynomial",
    "Projected",
    "Range",
    "kernel_from",
]
