"""CG whose two quotients are slightly off: how far its predictions are from those of CG itself.

With exact products, the recurrence r ← r − γAp, p ← P⁻¹r + βp stays in the Krylov spaces whatever γ and
β are. What is lost is orthogonality: b_it = p_iᵀr_t and m_it = p_iᵀAp_t for i < t, which CG has as 0,
obey a linear recurrence with the coefficients γ and β of the path itself, whose sources are the
relative errors of the quotients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.solvers import EagerMachine
from ridgeformer.solvers.machine import Precondition
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import cross, query_weight, system_eigenvalues, target_energy
from ridgeformer.types import Refusal

Scalars = Float[Tensor, "steps batch"]
Vectors = Float[Tensor, "steps batch k"]


@dataclass(frozen=True)
class CGPath:
    """The recurrence of CG in exact products, with given coefficients, for prompts with one output."""

    gamma: Tensor
    """γ_0 … γ_{T−1}, [T, batch]."""
    beta: Tensor
    """β_0 = 0, β_1 … β_{T−1}: p_t = P⁻¹r_t + β_t p_{t−1}."""
    alpha: Tensor
    """α_0 … α_T, [T + 1, batch, k]."""
    residual: Tensor
    """r_0 … r_T."""
    direction: Tensor
    """p_0 … p_{T−1}."""
    rho: Tensor
    """ρ_t = r_tᵀP⁻¹r_t, t = 0 … T."""
    curvature: Tensor
    """x_t = p_tᵀAp_t, t = 0 … T − 1."""

    @property
    def steps(self) -> int:
        return len(self.gamma)

    @property
    def length_error(self) -> Scalars:
        """ζ_t = 1 − γ_t x_t/ρ_t."""
        return 1 - self.gamma * self.curvature / self.rho[:-1]

    @property
    def memory_error(self) -> Scalars:
        """η_t = 1 − β_{t+1} ρ_t/ρ_{t+1}, for t = 0 … T − 2."""
        return 1 - self.beta[1:] * self.rho[:-2] / self.rho[1:-1]


def cg_path(
    prompt: Prompt,
    gamma: Scalars,
    beta: Scalars,
    *,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> CGPath:
    """The path that the coefficients lead along, from α_0 = 0."""
    if prompt.outputs != 1:
        raise Refusal("A path of CG has one output: take the outputs of the prompt one at a time.")
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    inverse = machine.inverse_preconditioner(precondition)
    r = prompt.y.double()
    alpha, p = torch.zeros_like(r), torch.zeros_like(r)
    alphas, residuals, directions, rhos, curvatures = [alpha], [r], [], [], []
    for g, b in zip(gamma.double(), beta.double(), strict=True):
        z = r if inverse is None else inverse * r
        rhos.append(machine.dot(r, z))
        p = z + b[:, None, None] * p
        Ap = machine.matvec(p)
        curvatures.append(machine.dot(p, Ap))
        step = g[:, None, None]
        alpha, r = alpha + step * p, r - step * Ap
        alphas.append(alpha)
        residuals.append(r)
        directions.append(p)
    rhos.append(machine.dot(r, r if inverse is None else inverse * r))
    vectors = (torch.stack(v)[..., 0] for v in (alphas, residuals, directions))
    scalars = (torch.stack(v)[..., 0, 0] for v in (rhos, curvatures))
    return CGPath(gamma.double(), beta.double(), *vectors, *scalars)


@dataclass(frozen=True)
class Defects:
    """b_it and m_it per unit of every source: ζ_0 … ζ_{T−1}, then η_0 … η_{T−1}."""

    b: dict[tuple[int, int], Tensor]
    m: dict[tuple[int, int], Tensor]


def defect_responses(path: CGPath) -> Defects:
    """The linear recurrence of the defects along a path, each of them [2T, batch].

    b_{t,t+1} = ρ_t ζ_t + β_t b_{t−1,t} and b_{i,t+1} = b_it − γ_t m_it, with

        γ_{t−1} m_{t−1,t} = b_{t−1,t} − β_{t−1} b_{t−2,t} − ρ_t (ζ_{t−1} + (1 − ζ_{t−1}) η_{t−1}),
        γ_i m_it = (1 + β_{i+1}) b_it − β_i b_{i−1,t} − b_{i+1,t} + γ_i β_t m_{i,t−1} for i < t − 1.
    """
    steps, zeta = path.steps, path.length_error
    gamma, beta, rho = path.gamma, path.beta, path.rho
    none = torch.zeros(2 * steps, rho.shape[1], dtype=rho.dtype)
    b: dict[tuple[int, int], Tensor] = {}
    m: dict[tuple[int, int], Tensor] = {}
    for t in range(steps):
        for i in range(t):
            before = b.get((i - 1, t), none)
            if i == t - 1:
                source = none.clone()
                source[i], source[steps + i] = rho[t], rho[t] * (1 - zeta[i])
                m[i, t] = (b[i, t] - beta[i] * before - source) / gamma[i]
            else:
                change = (1 + beta[i + 1]) * b[i, t] - beta[i] * before - b[i + 1, t]
                m[i, t] = change / gamma[i] + beta[t] * m[i, t - 1]
        for i in range(t):
            b[i, t + 1] = b[i, t] - gamma[t] * m[i, t]
        own = none.clone()
        own[t] = rho[t]
        b[t, t + 1] = own + beta[t] * b.get((t - 1, t), none)
    return Defects(b, m)


def prediction_responses(
    path: CGPath, defects: Defects, weights: Float[Tensor, "batch q k"], step: int
) -> Float[Tensor, "sources batch q"]:
    """G: the response of gᵀX⁻¹b after that step to every ζ_s and η_s, with g_i = k(x)ᵀp_i.

    It is that of f_t(x) − f̂_t(x) as far as this is linear in them.
    """
    g = torch.einsum("bqk,tbk->tbq", weights, path.direction[:step])
    b = torch.stack([defects.b[i, step] for i in range(step)])
    read: Tensor = torch.einsum("tbq,tsb->sbq", g / path.curvature[:step, :, None], b)
    return read


def largest_sum(response: Tensor, errors: Tensor) -> Tensor:
    """Σ_j |response_j|·error_j, where an error without a bound matters only if there is a response."""
    return torch.where(response == 0, 0.0, response.abs() * errors).sum(0)


def inexact_scalars_bound(
    path: CGPath,
    prompt: Prompt,
    *,
    length_error: float | Scalars,
    memory_error: float | Scalars,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "more batch q"]:
    """A bound on |f̂_t(x) − f_t(x)|, t = 0 … T, for a path whose quotients are off by relative errors.

    f_t is the prediction of CG. The errors bound |ζ_t| and |η_t| at every step. The bound is

        Σ_j |G_tj(x)|·error_j + ν/(1 − ν)·‖X^(−1/2)g‖·‖X^(−1/2)b‖

    with g_i = k(x)ᵀp_i, X = diag(x_i), G the response of gᵀX⁻¹b to each error and ν a bound on
    ‖X^(−1/2)NX^(−1/2)‖, N = (m_ij); or √(k(x)ᵀA⁻¹k(x))·‖r_t‖_{A⁻¹}, where that is smaller.
    """
    steps, batch = path.gamma.shape
    lengths, memories = (
        torch.as_tensor(e, dtype=torch.float64).expand(steps, batch)
        for e in (length_error, memory_error)
    )
    errors = torch.cat([lengths, memories])
    defects, weights = defect_responses(path), cross(prompt, kernel)
    bounds = [torch.zeros(batch, weights.shape[1], dtype=torch.float64)]
    for t in range(1, steps + 1):
        read = prediction_responses(path, defects, weights, t)
        bounds.append(largest_sum(read, errors[:, :, None]))
    known = torch.stack(bounds) + defect_remainder(path, defects, weights, errors)
    energy = energy_prediction_bound(path.residual, prompt, ridge=ridge, kernel=kernel)
    return torch.minimum(known, energy)


def defect_remainder(
    path: CGPath,
    defects: Defects,
    weights: Float[Tensor, "batch q k"],
    errors: Float[Tensor, "sources batch"],
) -> Float[Tensor, "more batch q"]:
    """ν/(1 − ν)·‖X^(−1/2)g‖·‖X^(−1/2)b‖ after every step, for errors of at most these sizes."""
    x, (steps, batch) = path.curvature, path.gamma.shape
    g = torch.einsum("bqk,tbk->tbq", weights, path.direction)
    found = [torch.zeros(batch, weights.shape[1], dtype=torch.float64)]
    for t in range(1, steps + 1):
        sizes = torch.stack([largest_sum(defects.b[i, t], errors) for i in range(t)])
        pairs = [
            largest_sum(defects.m[i, j], errors) ** 2 / (x[i] * x[j])
            for j in range(t)
            for i in range(j)
        ]
        nu = (2 * torch.stack(pairs).sum(0)).sqrt() if pairs else torch.zeros(batch).double()
        reach = ((g[:t] ** 2 / x[:t, :, None]).sum(0)).sqrt()
        size = (sizes**2 / x[:t]).sum(0).sqrt()
        rest = torch.where(nu < 1, nu / (1 - nu).clamp(min=1e-300), torch.inf) * size
        rest = torch.where(size > 0, rest, 0.0)[:, None]
        found.append(torch.where(reach > 0, rest * reach, 0.0))
    return torch.stack(found)


def energy_prediction_bound(
    residual: Vectors, prompt: Prompt, *, ridge: float, kernel: Kernel | None = None
) -> Float[Tensor, "steps batch q"]:
    """√(k(x)ᵀA⁻¹k(x))·‖r_t‖_{A⁻¹}: no α in the Krylov space with this residual predicts further from
    f*(x), or from f_t(x).
    """
    machine = EagerMachine(prompt.to(torch.float64), kernel or DEFAULT_KERNEL, ridge)
    root = torch.linalg.cholesky(machine.dense_system())
    scaled = torch.linalg.solve_triangular(root, residual.double()[..., None], upper=False)
    energy: Tensor = scaled[..., 0].norm(dim=-1)
    return query_weight(prompt, ridge=ridge, kernel=kernel) * energy[..., None]


def largest_scalar_error(steps: int, condition: float) -> float:
    """1/(16n(1 + 2κ)): with errors up to this in its quotients, CG leaves no range in n steps."""
    return 1 / (16 * steps * (1 + 2 * condition))


def inexact_scalars_growth_bound(
    prompt: Prompt,
    *,
    steps: int,
    error: float,
    ridge: float,
    kernel: Kernel | None = None,
    precondition: Precondition = "none",
) -> Float[Tensor, "more batch q"]:
    """√(k(x)ᵀA⁻¹k(x))·‖α*‖_A·min(6t√κ(14κ²)^(t−1)δ, (1 − 0.7/κ)^(t/2)), for t = 0 … steps.

    It bounds |f̂_t(x) − f_t(x)| for every path whose quotients are off by at most δ, of which nothing else
    is known; κ = cond(P⁻¹A). A δ above `largest_scalar_error` is refused.
    """
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition=precondition)
    condition = values[:, -1] / values[:, 0]
    room = largest_scalar_error(steps, float(condition.max()))
    if not error <= room:
        raise Refusal(
            f"Errors of {error:.3g} in the quotients may leave the ranges of CG within {steps} steps at "
            f"κ = {float(condition.max()):.3g}: at most {room:.3g} is covered."
        )
    t = torch.arange(steps + 1, dtype=torch.float64)[:, None]
    growth = 6 * t * condition.sqrt() * (14 * condition**2) ** (t - 1) * error
    factor = torch.minimum(growth, (1 - 0.7 / condition) ** (t / 2))
    energy = target_energy(prompt, ridge=ridge, kernel=kernel)[:, 0]
    weight = query_weight(prompt, ridge=ridge, kernel=kernel)
    return factor[..., None] * energy[:, None] * weight
