"""Random polynomials, whose covariance is the polynomial kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Polynomial
from ridgeformer.tasks.base import Prompt
from ridgeformer.tasks.gaussian_law import GaussianLaw
from ridgeformer.tasks.learnable import LearnableTask, normal, uniform
from ridgeformer.tasks.posterior import conditioned

MOST_MONOMIALS = 1000


@dataclass(frozen=True)
class PolynomialRegression(LearnableTask):
    """y = f(x) + noise, f a polynomial of `degree` D with independent Gaussian coefficients, |x| ≤ 1.

    x is uniform on the unit ball. The coefficient of x^α has variance D!/(α!(D − |α|)!)·c^(D − |α|),
    c the `offset`, so that f ~ GP(0, (⟨x, x'⟩ + c)^D): the kernel `Polynomial(degree, offset)`.
    """

    degree: int = 3
    offset: float = 1.0
    noise: float = 0.3

    name = "polynomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.degree >= 1, "degree ≥ 1", "degree")
        self.require(self.offset >= 0, "offset ≥ 0", "offset")
        few = comb(self.features + self.degree, self.degree) <= MOST_MONOMIALS
        self.require(few, f"at most {MOST_MONOMIALS} monomials", "degree", "features")
        self.require(self.noise > 0, "noise > 0", "noise")

    def monomials(self, x: Float[Tensor, "batch n p"]) -> Float[Tensor, "batch n m"]:
        """√variance·x^α for every α, which are the monomials of degree D in the entries of (x, √c)."""
        terms = list(combinations_with_replacement(range(self.features + 1), self.degree))
        orders = [factorial(self.degree) / prod(map(factorial, Counter(t).values())) for t in terms]
        constant = torch.full_like(x[..., :1], self.offset**0.5)
        product = torch.cat([x, constant], dim=-1)[..., torch.tensor(terms)].prod(-1)
        return product * torch.tensor(orders, dtype=torch.float64).sqrt()

    def laws(self) -> tuple[GaussianLaw, ...]:
        return (GaussianLaw(Polynomial(self.degree, self.offset), self.noise**2),)

    def observe(self, batch: int, points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        direction = normal(generator, batch, points, self.features)
        radius = uniform(generator, batch, points, 1) ** (1 / self.features)
        x = radius * direction / direction.norm(dim=-1, keepdim=True)
        basis = self.monomials(x)
        w = normal(generator, batch, basis.shape[2], 1)
        return x, basis @ w + self.noise * normal(generator, batch, points, 1)

    def best(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """The posterior mean, which is kernel ridge regression with the polynomial kernel and λ = noise²."""
        phi, y, query = prompt.phi.double(), prompt.y.double(), prompt.phi_query.double()
        kernel = Polynomial(self.degree, self.offset)
        return conditioned(kernel(phi, phi), kernel(query, phi), y, self.noise**2)[0]
