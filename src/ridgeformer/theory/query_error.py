"""The error that an approximate kernel causes in a prediction, as a sum of two terms."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.theory.systems import cross, gram, lengths
from ridgeformer.theory.width_rank import resolvent_difference


def approximate_prediction(
    prompt: Prompt,
    approximate_gram: Float[Tensor, "batch k k"],
    approximate_cross: Float[Tensor, "batch q k"],
    *,
    ridge: float,
) -> Float[Tensor, "batch q r"]:
    """f̂(x) = k̂(x)ᵀ(K̂ + λI)⁻¹y."""
    return approximate_cross @ coefficients(prompt, approximate_gram, ridge)


def query_error_terms(
    prompt: Prompt,
    approximate_gram: Float[Tensor, "batch k k"],
    approximate_cross: Float[Tensor, "batch q k"],
    *,
    ridge: float,
    kernel: Kernel | None = None,
) -> tuple[Float[Tensor, "batch q r"], Float[Tensor, "batch q r"]]:
    """‖k(x)‖·‖A⁻¹ − Â⁻¹‖₂·‖y‖ and ‖k(x) − k̂(x)‖·‖Â⁻¹y‖, one per query and output."""
    at_queries = cross(prompt, kernel)
    between = resolvent_difference(gram(prompt, kernel), approximate_gram, ridge=ridge)
    alpha = coefficients(prompt, approximate_gram, ridge)
    system = lengths(at_queries, 2)[:, :, None] * lengths(prompt.y.double(), 1)[:, None, :]
    query = lengths(at_queries - approximate_cross, 2)[:, :, None] * lengths(alpha, 1)[:, None, :]
    return between[:, None, None] * system, query


def query_error_bound(
    prompt: Prompt,
    approximate_gram: Float[Tensor, "batch k k"],
    approximate_cross: Float[Tensor, "batch q k"],
    *,
    ridge: float,
    kernel: Kernel | None = None,
) -> Float[Tensor, "batch q r"]:
    """|f(x) − f̂(x)| ≤ ‖k(x)‖·‖A⁻¹ − Â⁻¹‖₂·‖y‖ + ‖k(x) − k̂(x)‖·‖Â⁻¹y‖."""
    system, query = query_error_terms(
        prompt, approximate_gram, approximate_cross, ridge=ridge, kernel=kernel
    )
    return system + query


def coefficients(
    prompt: Prompt, approximate_gram: Float[Tensor, "batch k k"], ridge: float
) -> Float[Tensor, "batch k r"]:
    """(K̂ + λI)⁻¹y."""
    shift = ridge * torch.eye(prompt.supports, dtype=torch.float64)
    solved: Tensor = torch.linalg.solve(approximate_gram + shift, prompt.y.double())
    return solved
