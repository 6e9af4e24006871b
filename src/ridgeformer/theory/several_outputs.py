"""Several outputs: one block method compared with a recurrence for each output."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers import ConjugateGradient, solve
from ridgeformer.tasks import Prompt
from ridgeformer.theory.depth import chebyshev_factor, factors_of, prediction_bound
from ridgeformer.theory.systems import energy_error, system_eigenvalues


def block_cg_energy_bound(
    prompt: Prompt, *, ridge: float, steps: int, kernel: Kernel | None = None
) -> Float[Tensor, "steps batch r"]:
    """‖α_t^block − α*‖_A ≤ ‖α_t^CG − α*‖_A for every output and t = 0 … steps.

    The error of CG on the right-hand side is returned.
    """
    run = solve(
        ConjugateGradient(), prompt.to(torch.float64),
        steps=steps, ridge=ridge, kernel=kernel, states=True,
    )  # fmt: skip
    return energy_error(run.states["alpha"], prompt, ridge=ridge, kernel=kernel)


def block_cg_prediction_bound(
    prompt: Prompt, *, ridge: float, steps: int, kernel: Kernel | None = None
) -> Float[Tensor, "steps batch q r"]:
    """|f_t(x) − f*(x)| ≤ √(k(x)ᵀA⁻¹k(x)) · ‖α*‖_A / T_t((κ+1)/(κ−1)), for every output.

    Each prompt has its own κ = cond(A). The bound also holds for r independent runs of CG.
    """
    values = system_eigenvalues(prompt, ridge=ridge, kernel=kernel)
    factors = factors_of(chebyshev_factor, (values[:, -1] / values[:, 0]).tolist(), steps)
    return prediction_bound(prompt, factors, ridge=ridge, kernel=kernel)
