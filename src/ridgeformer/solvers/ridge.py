"""Which λ is taken: one rule for solvers, the closed form and the compiler."""

from __future__ import annotations

from math import inf

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, check_number

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24}
"""Half the distance from 1 to the next number."""


def check_ridge(ridge: float, largest: float = 0.0, dtype: str = "float64") -> None:
    """Refuses a λ that is not positive, or is lost where it is added to kernel values as large as `largest`.

    The compiler knows a bound on λ_max(K), which no diagonal entry exceeds; where the prompts are known,
    `largest` is their largest diagonal entry. So a prompt of a compiled model's domain is served by the
    solvers and the closed form, too.
    """
    check_number("ridge", ridge)
    if not 0 < ridge < inf:
        raise Refusal(f"The ridge must be positive and finite, got {ridge}: choose λ > 0.")
    if is_lost(ridge, largest, dtype):
        raise Refusal(
            f"The ridge {ridge:.3g} is lost in {dtype} where it is added to kernel values that reach {largest:.3g}: "
            f"choose λ ≥ {1.1 * UNIT[dtype] * largest:.2g}."
        )


def is_lost(ridge: float, largest: float, dtype: str = "float64") -> bool:
    """Whether adding λ to a number of that size leaves it as it was."""
    return ridge < UNIT[dtype] * largest


def largest_entry(kernel: Kernel, prompt: Prompt) -> float:
    """The largest k(x, x) of the supports, which is the largest entry of K."""
    return float(kernel.diagonal(prompt.phi).max())
