"""Kernels, one per file; `KERNELS` has them all by name, and `register` adds the user's own."""
# mypy: implicit-reexport

from typing import Any

from ridgeformer.kernels.base import Kernel, Logits, Range
from ridgeformer.kernels.exponential import Exponential
from ridgeformer.kernels.feature_map import FeatureMap, Monomial
from ridgeformer.kernels.gaussian import Gaussian
from ridgeformer.kernels.linear import Linear
from ridgeformer.kernels.polynomial import Polynomial
from ridgeformer.kernels.projected import Projected
from ridgeformer.registry import register

KERNELS = Kernel.registry

for _kernel in (Linear, Exponential, Gaussian, Polynomial):
    register(_kernel)

DEFAULT_KERNEL: Kernel = Linear()
"""The kernel where none is chosen."""


def kernel_from(values: dict[str, Any]) -> Kernel:
    """The kernel that `to_dict` described; `name` says which."""
    options = {name: value for name, value in values.items() if name != "name"}
    return KERNELS.find(str(values.get("name"))).from_dict(options)
