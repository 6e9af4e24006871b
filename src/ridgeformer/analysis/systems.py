"""The systems that methods solve, in their eigenbases.

With a diagonal preconditioner P, the system P⁻¹A has the eigenvalues σ of its symmetrised form

    S = P^(−1/2) A P^(−1/2) = V diag(σ) Vᵀ,    A = K + λI

and a method with fixed coefficients computes α = P^(−1/2) q(S) P^(−1/2) y for some polynomial q. Its
prediction is a sum over eigenvalues, and so is the exact one, for which q(σ) = 1/σ:

    f(x) = Σ_i g(σ_i) c_i(x),    c_i(x) = k(x)ᵀP^(−1/2)v_i · v_iᵀP^(−1/2)y / σ_i,    g(σ) = σ q(σ)

g is the filter of the method: how much of each eigendirection it has learned. At the supports the residual of
the exact fit is y − Kα = λα, and the coefficients of a method are a sum of the same kind, whose filter h tells
how much of y is left in each eigendirection; for the exact solution h(σ) = λ/σ:

    λα = Σ_i h(σ_i) P^(−1/2)v_i · v_iᵀP^(−1/2)y,    h(σ) = λ q(σ)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers import EagerMachine, Precondition
from ridgeformer.tasks import GaussianLaw, Prompt

Place = Literal["queries", "supports"]


@dataclass(frozen=True)
class Eigensystem:
    """The eigenvalues of P⁻¹A, and the two factors of the components that a filter multiplies."""

    values: Float[Tensor, "batch k"]
    """σ, in rising order."""
    left: Float[Tensor, "batch n k"]
    """k(x)ᵀP^(−1/2)v_i, or P^(−1/2)v_i at the supports."""
    right: Float[Tensor, "batch k r"]
    """v_iᵀP^(−1/2)y/σ_i, or without σ_i at the supports."""

    @staticmethod
    def of(
        prompt: Prompt, law: GaussianLaw, precondition: Precondition = "none", at: Place = "queries"
    ) -> Eigensystem:
        machine = EagerMachine(prompt.to(torch.float64), law.kernel, law.ridge)
        system = machine.dense_system()
        inverse = machine.inverse_preconditioner(precondition)
        scale = torch.ones_like(system[..., :1]) if inverse is None else inverse.sqrt()
        values, vectors = torch.linalg.eigh(scale * system * scale.mT)
        vectors = scale * vectors
        right = vectors.mT @ prompt.y.double()
        if at == "supports":
            return Eigensystem(values, vectors, right)
        return Eigensystem(values, machine.cross @ vectors, right / values[..., None])

    def filtered(self, gains: Float[Tensor, "batch k m"]) -> Float[Tensor, "batch n r m"]:
        """The sums over components for several filters, given their values at the eigenvalues."""
        right = self.right[..., None] * gains[:, :, None]
        return torch.einsum("bnk,bkrm->bnrm", self.left, right)
