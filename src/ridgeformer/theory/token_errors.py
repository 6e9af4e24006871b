"""Errors of the tokens' own reciprocals, D and P⁻¹, in a recurrence of CG whose coefficients are given.

Each token has one error, ε_i in its D or η_i in its entry of P⁻¹, which is the same in every step. To first
order the recurrence responds to them linearly, by matrices that it gives itself; what is left is
bounded by norms.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.theory.inexact_scalars import CGPath
from ridgeformer.theory.systems import spectral


class TokenErrors:
    """Bounds for |ε_i| ≤ `normaliser` and |η_i| ≤ `diagonal`, along a path with exact products.

    Sources are the ε of all supports, and then the η. `alpha`, `r` and `p` are the matrices of first order,
    by step; `prediction`, `r_rest` and `p_rest` bound what is left.
    """

    def __init__(
        self,
        path: CGPath,
        gram: Tensor,
        ridge: float,
        scaling: Tensor,
        weights: Tensor,
        *,
        normaliser: float,
        diagonal: float,
    ) -> None:
        self.path, self.gram, self.scaling, self.weights = path, gram, scaling, weights
        self.normaliser, self.diagonal = normaliser, diagonal
        batch, k, _ = gram.shape
        self.system = gram + ridge * torch.eye(k, dtype=torch.float64)
        self.root: Tensor = torch.linalg.cholesky(self.system).mT
        self.top, self.most = spectral(gram), scaling.amax(-1)
        self.sizes = torch.cat(
            [torch.full((k,), size, dtype=torch.float64) for size in (normaliser, diagonal)]
        )
        none = torch.zeros(batch, dtype=torch.float64)
        count = path.steps + 1
        self.r_rest, self.p_rest, self.r_rest_scaled, self.p_rest_energy = (
            [none] * count for _ in range(4)
        )
        self.prediction = [torch.zeros_like(weights[..., 0])] * count
        self.alpha, self.r, self.p = self.first_order()
        for s in range(path.steps):
            self.spread(s, False, diagonal * self.most * self.r_size(s))
            self.spread(s, True, normaliser * self.top * self.p_size(s))

    def first_order(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The derivatives of α_t, r_t and p_t, with the coefficients kept."""
        batch, k, _ = self.gram.shape
        zero = torch.zeros(batch, k, k, dtype=torch.float64)
        alpha = r = p = torch.cat([zero, zero], dim=-1)
        alphas, rs, ps = [alpha], [r], []
        for t in range(self.path.steps):
            gamma, beta = (v[t][:, None, None] for v in (self.path.gamma, self.path.beta))
            z = (self.scaling * self.path.residual[t]).diag_embed()
            p = self.scaling[..., None] * r - torch.cat([zero, z], dim=-1) + beta * p
            image = torch.einsum("bij,bj->bi", self.gram, self.path.direction[t]).diag_embed()
            alpha = alpha + gamma * p
            r = r - gamma * (self.system @ p - torch.cat([image, zero], dim=-1))
            alphas.append(alpha)
            rs.append(r)
            ps.append(p)
        return alphas, rs, ps

    def size(self, matrix: Tensor) -> Tensor:
        """The largest norm of the matrix times the errors."""
        found: Tensor = (matrix.abs() @ self.sizes).norm(dim=-1)
        return found

    def r_size(self, t: int) -> Tensor:
        return self.size(self.r[t]) + self.r_rest[t]

    def p_size(self, t: int) -> Tensor:
        return self.size(self.p[t]) + self.p_rest[t]

    def spread(self, s: int, of_product: bool, size: Tensor) -> None:
        """Adds what an error of this norm does, in the product of step s or in P⁻¹r_s."""
        if not size.any():
            return
        for t, (alpha, r, p) in self.responses(s, of_product).items():
            read = (self.weights @ alpha).norm(dim=-1)
            self.prediction[t] = self.prediction[t] + read * size[:, None]
            for norms, matrix in (
                (self.r_rest, r),
                (self.r_rest_scaled, self.scaling.sqrt()[..., None] * r),
                (self.p_rest, p),
                (self.p_rest_energy, self.root @ p),
            ):
                norms[t] = norms[t] + spectral(matrix) * size

    def responses(self, s: int, of_product: bool) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
        """How α_t, r_t and p_t change per unit of an error of the s-th product, or of P⁻¹r_s."""
        path, zero = self.path, torch.zeros_like(self.system)
        gamma, beta = (v[:, :, None, None] for v in (path.gamma, path.beta))
        eye = zero + torch.eye(zero.shape[-1], dtype=torch.float64)
        alpha, r, p = zero, zero, zero if of_product else eye
        found = {} if of_product else {s: (alpha, r, p)}
        for t in range(s, path.steps):
            alpha, r = alpha + gamma[t] * p, r - gamma[t] * (self.system @ p)
            if of_product and t == s:
                r = r - gamma[t] * eye
            # No direction follows the last residual.
            p = self.scaling[..., None] * r + beta[t + 1] * p if t + 1 < path.steps else zero
            found[t + 1] = alpha, r, p
        return found

    def rho(self, t: int) -> tuple[Tensor, Tensor]:
        """ρ̂_t/ρ_t − 1, of the model over the path: its derivative, and a bound on the rest."""
        rho, r = self.path.rho[t], self.path.residual[t]
        z = self.scaling * r
        first = 2 * torch.einsum("bi,bij->bj", z, self.r[t])
        first = first - torch.cat([torch.zeros_like(z), z * r], dim=-1)
        scaled = self.size(self.scaling.sqrt()[..., None] * self.r[t]) + self.r_rest_scaled[t]
        rest = 2 * rho.sqrt() * self.r_rest_scaled[t] + scaled**2
        rest = rest + self.diagonal * (2 * rho.sqrt() * scaled + scaled**2)
        return first / rho[:, None], rest / rho

    def curvature(self, t: int) -> tuple[Tensor, Tensor]:
        """x̂_t/x_t − 1, likewise."""
        x, p = self.path.curvature[t], self.path.direction[t]
        image = torch.einsum("bij,bj->bi", self.gram, p)
        full = torch.einsum("bij,bj->bi", self.system, p)
        first = 2 * torch.einsum("bi,bij->bj", full, self.p[t])
        first = first - torch.cat([p * image, torch.zeros_like(p)], dim=-1)
        energy = self.size(self.root @ self.p[t]) + self.p_rest_energy[t]
        moved = self.p_size(t)
        crossed = moved * image.norm(dim=-1) + self.top * (p.norm(dim=-1) * moved + moved**2)
        rest = 2 * x.sqrt() * self.p_rest_energy[t] + energy**2 + self.normaliser * crossed
        return first / x[:, None], rest / x


def quotient(
    above: tuple[Tensor, Tensor], below: tuple[Tensor, Tensor], sizes: Tensor, error: float
) -> tuple[Tensor, Tensor]:
    """(1 − ζ)·u/v − 1 + ζ for |ζ| ≤ error: its derivative, and a bound on the rest.

    u − 1 and v − 1 are given by their derivatives and bounds on their rests.
    """
    (first_u, rest_u), (first_v, rest_v) = above, below
    u, v = (first.abs() @ sizes + rest for first, rest in (above, below))
    room = (1 - v).clamp(min=0)
    more = (u + v) * (v + error) / room
    none = (u + v) == 0
    return first_u - first_v, rest_u + rest_v + torch.where(none, 0.0, more)
