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
from ridgeformer.types import Refusal

KERNELS = Kernel.registry

for _kernel in (Linear, Exponential, Gaussian, Polynomial):
    register(_kernel)

DEFAULT_KERNEL: Kernel = Linear()
"""The kernel where none is chosen."""


def kernel_or_default(kernel: Kernel | None) -> Kernel:
    """The kernel, or the default where none is chosen; a name or a class is refused, with what to write."""
    if kernel is None:
        return DEFAULT_KERNEL
    if not isinstance(kernel, Kernel):
        kind = KERNELS.get(kernel, kernel) if isinstance(kernel, str) else kernel
        example = f"{kind.__name__}(…)" if isinstance(kind, type) else "Gaussian(lengthscale=1.0)"
        raise Refusal(f"`kernel` must be a Kernel, such as `{example}`; got {kernel!r}.")
    return kernel


def kernel_from(values: dict[str, Any]) -> Kernel:
    """The kernel that `to_dict` described; `name` says which."""
    options = {name: value for name, value in values.items() if name != "name"}
    kind = KERNELS.find(str(values.get("name")))
    try:
        return kind.from_dict(options)
    except Refusal:
        raise
    except (TypeError, ValueError, KeyError) as error:
        raise Refusal(
            f"There is no {kind.name} kernel with {str(options)[:80]}: {error}."
        ) from error
