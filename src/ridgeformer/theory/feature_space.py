"""Conjugate gradients in feature space, (G + λI) w = Φᵀy with G = ΦᵀΦ, and the prefixes of a prompt."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.solvers import Solver, solve
from ridgeformer.tasks import Prompt
from ridgeformer.theory.depth import cg_factor, factors_of
from ridgeformer.types import Refusal


def in_features(prompt: Prompt, kernel: Kernel | None = None) -> Prompt:
    """The prompt with u(φ) in place of φ, in float64: for the linear kernel what it was for this one."""
    kernel = kernel or DEFAULT_KERNEL
    features = kernel.dot_product(prompt.features)
    if features is None:
        raise Refusal(
            f"The {kernel.name} kernel is no dot product of finitely many features: it has no feature "
            "space to solve in."
        )
    phi, query = (features(x.double()) for x in (prompt.phi, prompt.phi_query))
    return Prompt(phi, prompt.y.double(), query)


def prefix_prompts(prompt: Prompt, kernel: Kernel | None = None) -> Prompt:
    """Every prefix as a prompt of its own, k + 1 for each prompt, from the empty one to the whole.

    Prefix i has the first i pairs, and zeros in place of the others, which count for nothing. Its query
    is the x that follows, and for the whole prompt the first query. Features are those of `in_features`.
    """
    given = in_features(prompt, kernel)
    batch, k, p = given.phi.shape
    kept = torch.ones(k + 1, k, dtype=torch.float64).tril(-1)[None, :, :, None]
    phi, y = ((kept * x[:, None]).flatten(0, 1) for x in (given.phi, given.y))
    queries = torch.cat([given.phi, given.phi_query[:, :1]], dim=1)
    return Prompt(phi, y, queries.reshape(batch * (k + 1), 1, p))


def feature_cg_prediction_bound(
    prompt: Prompt, *, ridge: float, steps: int, kernel: Kernel | None = None
) -> Float[Tensor, "steps batch q r"]:
    """|f_t(x) − f*(x)| ≤ √(φᵀ(G+λI)⁻¹φ) · 2((√κ−1)/(√κ+1))^t · ‖w*‖_{G+λI}, for t = 0 … steps.

    φ = u(x), G = ΦᵀΦ, w* = (G+λI)⁻¹Φᵀy and κ = cond(G+λI), for each prompt its own.
    """
    given = in_features(prompt, kernel)
    gram = given.phi.mT @ given.phi
    values = torch.linalg.eigvalsh(gram).clamp(min=0) + ridge
    factors = factors_of(cg_factor, (values[:, -1] / values[:, 0]).tolist(), steps)
    root = torch.linalg.cholesky(gram + ridge * torch.eye(gram.shape[-1], dtype=torch.float64))

    def lengths(vectors: Float[Tensor, "batch p n"]) -> Float[Tensor, "batch n"]:
        """√(vᵀ(G+λI)⁻¹v)"""
        solved: Tensor = torch.linalg.solve_triangular(root, vectors, upper=False)
        return solved.square().sum(1).sqrt()

    weight, energy = lengths(given.phi_query.mT), lengths(given.phi.mT @ given.y)
    return factors[:, :, None, None] * weight[None, :, :, None] * energy[None, :, None, :]


def causal_support_error(
    solver: Solver,
    prompt: Prompt,
    other: Prompt,
    *,
    ridge: float,
    steps: int,
    kernel: Kernel | None = None,
) -> Float[Tensor, "steps batch shared r"]:
    """|α_{t,i} − α'_{t,i}|/2 of the supports that both prompts begin with, for t = 0 … steps.

    Under a causal mask a support's state is the same for both, so that whatever is read off it is
    wrong about its entry of the dual iterate by at least so much, on one of the two.
    """
    differs = (prompt.phi != other.phi).any(-1) | (prompt.y != other.y).any(-1)
    shared = int((~differs).all(0).long().cumprod(0).sum())
    if shared == 0:
        raise Refusal("The prompts differ in their first support already: they must share it.")
    runs = [
        solve(solver, given, steps=steps, ridge=ridge, kernel=kernel, states=True)
        for given in (prompt, other)
    ]
    first, second = (run.states["alpha"][:, :, :shared] for run in runs)
    return (first - second).abs() / 2
