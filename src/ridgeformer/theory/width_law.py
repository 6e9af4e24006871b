"""How wide a plain ReLU MLP must be for Gaussian ridge regression by row-normalised attention.

Everything here is for the worst case over a domain: at most N supports, |y| ≤ Y, a kernel with values in
[0, 1] and K_ii = 1, and Richardson iteration tuned to [λ/(N + 1), 1 + λ/2], which holds every spectrum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, log2, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.theory.digits import digit_error
from ridgeformer.theory.interpolation import Range
from ridgeformer.theory.normaliser import row_sums
from ridgeformer.theory.systems import cross, gram

STRAY = 0.1
"""The fraction by which an iterate may exceed its exact range."""


@dataclass(frozen=True)
class RowSumLaw:
    """Depth and width of row-normalised Richardson iteration over a whole domain."""

    supports: int
    ridge: float
    max_target: float = 1.0

    @property
    def interval(self) -> Range:
        """[a, b] = [λ/(N + 1), 1 + λ/2]"""
        return self.ridge / (self.supports + 1), 1 + self.ridge / 2

    @property
    def step(self) -> float:
        """η = 2/(a + b)"""
        return 2 / sum(self.interval)

    @property
    def condition(self) -> float:
        """κ = b/a = (N + 1)(1 + λ/2)/λ"""
        return self.interval[1] / self.interval[0]

    def steps(self, factor: float) -> int:
        """T = ⌈κ/2·log(1/factor)⌉ steps multiply the worst mode by the factor or less."""
        return max(1, ceil(self.condition / 2 * log(1 / factor)))

    def steps_for(self, error: float) -> int:
        """T = ⌈κ/2·log(Y√(N/λ)/ε)⌉ steps, after which |f_T − f*| ≤ ε for every prompt."""
        most = self.max_target * sqrt(self.supports / self.ridge)
        return self.steps(min(1.0, error / most))

    @property
    def growth(self) -> float:
        """g = min(2, √(1 + 3ηλ/2)), for which ‖α_t‖ ≤ g‖y‖/λ."""
        return min(2.0, sqrt(1 + 1.5 * self.step * self.ridge))

    @property
    def range(self) -> float:
        """B = Y(1 + 1.1g√N), a bound on every entry of y − λα."""
        return self.max_target * (1 + (1 + STRAY) * self.growth * sqrt(self.supports))

    @property
    def length(self) -> float:
        """Y√N(1 + 1.1g), a bound on ‖y − λα‖."""
        return self.max_target * sqrt(self.supports) * (1 + (1 + STRAY) * self.growth)

    def responses(self, steps: int) -> Range:
        """Bounds on Σ_{s<T} max_σ √σ|R_{T,s}(σ)|:

        (1 − ρ^T)√((N+1)/λ) and 2√((N+1)/λ) + 2√(1 + λ/2)/min(1, λ), ρ = (κ−1)/(κ+1).
        """
        root = sqrt((self.supports + 1) / self.ridge)
        rate = (self.condition - 1) / (self.condition + 1)
        rest = 2 * sqrt(1 + self.ridge / 2) / min(1.0, self.ridge)
        return (1 - rate**steps) * root, 2 * root + rest

    def intervals(self, *, steps: int, tolerance: float, spent: float = 0.0) -> Range:
        """Bounds on the n of interpolated products that promise ε, of which `spent` is round-off's."""
        n = self.supports
        low, high = self.responses(steps)
        spread = sqrt(n * (n + 1)) * self.range * (0.5 - 1 / (n + 1)) / 2
        least = sqrt(spread * low / tolerance)
        return least, 1 + sqrt(2**0.25 * spread * high / (tolerance - spent))

    def digits(self, *, steps: int, tolerance: float, spent: float = 0.0) -> Range:
        """Bounds on the M of products by digits that promise ε, of which `spent` is round-off's."""
        low, high = self.responses(steps)
        reach = sqrt(self.supports + 1) * self.length
        least = log2(reach * low / (4 * tolerance))
        most = 4 * digit_error(4) * 2**4  # a quarter of the last digit, and a little more
        return least, 1 + log2(most * 2**0.25 * reach * high / (4 * (tolerance - spent)))


def kernel_mass_bound(reach: float, features: int) -> float:
    """S with Σ_i 1/(K1)_i ≤ S for Gaussian kernels and any number of supports with |x| ≤ R.

    S = min_{s≥0} (1+s)^d (1+2s)^{−d/2} e^{q²/(1+s)}, where q = R/ℓ is `reach`.
    """

    def bound(s: float) -> float:
        return float((1 + s) ** features * (1 + 2 * s) ** (-features / 2) * exp(reach**2 / (1 + s)))

    # Any s gives a bound, so that a coarse search costs nothing but a little of the bound.
    grid = [0.0, *(2.0 ** (j / 8) for j in range(-64, 65))]
    return min(map(bound, grid))


def slope_bound(supports: int, ridge: float, reach: float) -> float:
    """½√(k/λ)·q·e^{−(q² + λ/k)/2} ≤ ‖A⁻¹k(x)‖₁ for k/2 supports at each of ±ℓ√(λ/k), x at distance qℓ."""
    shrunk = exp(-(reach**2 + ridge / supports) / 2)
    return 0.5 * sqrt(supports / ridge) * reach * shrunk


def relative_responses(
    prompt: Prompt, kernel: Kernel, *, ridge: float, step: float, steps: int
) -> Float[Tensor, "batch q"]:
    """Σ_{s<T} η‖D⁻¹(I − ηAD⁻¹)^s k(x)‖₁ at every query.

    If the product of support i is off by at most c/D_i in every step, a prediction is off by at most
    c times this.
    """
    sums = row_sums(prompt, kernel)
    a = gram(prompt, kernel) + ridge * torch.eye(prompt.supports, dtype=torch.float64)
    vectors = cross(prompt, kernel).mT
    total = torch.zeros(vectors.shape[0], vectors.shape[2], dtype=torch.float64)
    for _ in range(steps):
        scaled = vectors / sums[..., None]
        total += step * scaled.abs().sum(1)
        vectors = vectors - step * (a @ scaled)
    return total
