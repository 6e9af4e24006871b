"""Termination of CG: the error that remains with fewer steps than distinct eigenvalues."""

from __future__ import annotations

from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import preconditioned_system


def spectral_energies(
    prompt: Prompt, *, ridge: float, rank: int, kernel: Kernel | None = None
) -> tuple[Float[Tensor, "batch n"], Float[Tensor, "batch n"]]:
    """The distinct eigenvalues s_i of A and the energies w_i = ‖Π_iα*‖²_A = y_i²/s_i of the first output.

    K has the given rank. If the rank is k, then n = k. Otherwise n = rank + 1, and the first
    eigenvalue is λ, whose eigenspace is K's null space.
    """
    values: Tensor
    vectors: Tensor
    values, vectors = torch.linalg.eigh(preconditioned_system(prompt, ridge=ridge, kernel=kernel))
    energies = (vectors.mT @ prompt.y.double()[..., :1])[..., 0].square() / values
    null = prompt.supports - rank
    if null == 0:
        return values, energies
    at_ridge = (energies[:, :null] * values[:, :null] / ridge).sum(1, keepdim=True)
    bottom = torch.full_like(at_ridge, ridge)
    return (
        torch.cat([bottom, values[:, null:]], 1),
        torch.cat([at_ridge, energies[:, null:]], 1),
    )


def cg_energy_floor(
    eigenvalues: Float[Tensor, "batch n"], energies: Float[Tensor, "batch n"], *, steps: int
) -> Float[Tensor, " batch"]:
    """‖α_t − α*‖_A ≥ (Σ_{i∈S} ℓ_i²/w_i)^{−1/2} for CG, ℓ_i = Π_{j∈S, j≠i} s_j/(s_j − s_i).

    S is any set of t + 1 distinct eigenvalues s_i of A, and w_i > 0 is the energy of α* in each;
    the best S is used. Equality holds when A has no other eigenvalues: this is then the error of
    the step before the last. With t eigenvalues or fewer the floor is 0, and CG has terminated.
    """
    n = eigenvalues.shape[1]
    if n <= steps:
        return torch.zeros_like(eigenvalues[:, 0])
    chosen = torch.tensor(list(combinations(range(n), steps + 1)))
    s, w = eigenvalues[:, chosen], energies[:, chosen]  # [batch, subset, t + 1]
    others = ~torch.eye(steps + 1, dtype=torch.bool)
    apart = torch.where(others, s[..., None, :] - s[..., :, None], 1.0)
    lagrange = torch.where(others, s[..., None, :] / apart, 1.0).prod(-1)
    return (lagrange.square() / w).sum(-1).rsqrt().amax(-1)
